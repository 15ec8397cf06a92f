"""Slurm: the probe's `slurm` sections come in, what it reports goes out, joined to the readings.

scontrol's text is read here, and nowhere else. What a user sees of it is decided in `survey/`.
"""
