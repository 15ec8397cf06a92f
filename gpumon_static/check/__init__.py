"""A config and its hosts come in, findings with what to do about them go out.

It connects to each host as fetch does, and writes nothing. What a reading means is not decided here.
"""
