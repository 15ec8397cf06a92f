"""The views that users ask in SQL, each in a file of its own whose comment describes it.

A question comes in, its answer goes out: asking.py makes the views and lets the question read nothing else,
moment.py finds the readings of one moment. What the program itself asks is in questions/. Nothing is decided
or printed here.
"""
