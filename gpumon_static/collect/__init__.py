"""Hosts come in, exactly one `HostReading` per host goes out, whether the host answered or not.

How a host is reached is in `ssh/` (and local.py), what is asked in `probe/`, what a vendor's GPUs answer in a
folder of its own, how many are asked at once in `engines/`. Files, pages and what a reading means
do not belong here.
"""
