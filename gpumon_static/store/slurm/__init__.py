"""What is kept of Slurm beside the readings: how it answered in the last run, and the GPU time of its jobs.

Answers and sightings come in, `slurm.json` and tables of `history.db` go out. What it reports of single GPUs
and hosts is in load_data.csv.
"""
