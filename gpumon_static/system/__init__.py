"""The collector's own system: files in one step, programs bounded in time, templates, commands to paste.

Comes in: paths, words and contents. Goes out: files, outputs, and `Command`s quoted for a shell. What a file
means is not decided here: store/ and publish/ know their own.
"""
