"""What every run does for the folder: runs become hours and days, summed up, bounded, checked, pruned.

Files come in, files go out. What a row means is not decided here.
"""
