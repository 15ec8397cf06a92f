"""A survey comes in, the files for scripts go out: gpus.json, metrics.prom, feed.xml, free.txt.

Their names, fields and meanings are contracts with users' scripts. Nothing here is made to be looked at.
"""
