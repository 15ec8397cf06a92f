"""Events come in, the command of `[notify]` is run once for each. `fetch` runs it, after its files are
written.

What an event is, and its words, are decided in `survey/`; nothing here changes the outcome of a run.
"""
