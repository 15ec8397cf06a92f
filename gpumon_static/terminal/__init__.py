"""The survey and the history as tables and as a live view, for users at a terminal.

Rows and columns, colours, keys. What a GPU's state is, and where one can run, is decided in `survey/`.
"""
