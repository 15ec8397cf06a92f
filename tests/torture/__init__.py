"""Torture: kills, signals, full disks, wrong clocks, crowds and hostile hosts, each tried many times.

`make torture` runs all of it and ends with a table of tried / survived; tests/torture/test_torture.py runs a short form.
Each kind is a function that takes a directory and how often to try, and returns a `Result`.
"""
