"""The doctor: a config and its hosts come in, findings with what to do about them go out.

It takes the same way to each host as fetch, and writes nothing. What a reading means is not decided here.
"""
