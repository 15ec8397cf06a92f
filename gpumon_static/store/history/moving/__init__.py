"""A history, and a backup of it or another collector's, come in; a copy or one history of both goes out.

What a run adds is not decided here.
"""
