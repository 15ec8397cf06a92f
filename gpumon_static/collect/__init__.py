"""Hosts come in, exactly one `HostReading` per host goes out, whether the host answered or not.

How a host is reached is in `ssh/` (and local.py), what is asked in `probe/`, what a vendor's GPUs answer in a
folder of its own, how many are asked at once in `engines/`. Nothing here knows files, pages or what a reading
means.
"""
