"""A survey and its past come in, one self-contained HTML text goes out. The only room that imports jinja2.

records.py is the page as data, view.py builds it, html.py puts it through the templates. Decisions about
GPUs are made in `survey/`, and drawing that can wait is left to `assets/`.
"""
