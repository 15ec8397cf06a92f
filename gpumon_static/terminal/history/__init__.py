"""The history for users at a terminal: reports, supply, and answers to questions in SQL.

Rows come in; a table, plain columns, CSV or JSON go out. What they mean is decided in `survey/` and `store/`.
"""
