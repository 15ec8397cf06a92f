"""The command line: options come in, one call per command goes out.

cli.py has the commands, exits.py turns errors into lines and exit statuses, fetch.py and render.py are the
two pipelines. Heavy imports are inside the commands, so that `--help` answers at once. No logic of other
rooms here.
"""
