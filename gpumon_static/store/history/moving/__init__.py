"""A history and a backup of it, or that of another collector, come in; a copy or one history goes out.

What a run adds is not decided here.
"""
