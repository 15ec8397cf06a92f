"""A survey and its past come in; the records of People, Supply and Health go out, for the templates.

Now, the first tab, is made of hosts and cards, in the modules beside this folder.
"""
