"""A history comes in; what a page shows of it goes out, of all GPUs and hosts at once.

timelines.py has everything of it. How it is drawn is not decided here.
"""
