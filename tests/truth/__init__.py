"""A lab whose schedule is known to the second, sent through the real `fetch` and `render`, and every answer compared.

The simulator and the reference are plain Python, written from the docs. They import nothing of the package;
pipeline.py alone does, and only the entries: `fetch` with its way to the hosts replaced, `render`, the command
line. `make truth` runs a month; test_truth.py three days.
"""
