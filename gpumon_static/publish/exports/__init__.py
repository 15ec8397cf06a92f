"""A survey comes in, the files for scripts go out: gpus.json, metrics.prom, feed.xml, free.txt, and
the table of `show` for curl.

Their names, fields and meanings are contracts with users' scripts.
"""
