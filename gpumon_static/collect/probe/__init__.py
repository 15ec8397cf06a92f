"""probe.sh, the one script that runs on a host, and the parsers of all its sections that are not a vendor's.

The raw output comes in; sections, processes and facts of the host go out. GPUs do not belong here.
"""
