"""What is kept of Slurm beside the readings: how it answered in the last run, and the GPU time of its jobs.

Answers come in, `slurm.json` goes out. What it reports of single GPUs
and hosts is in load_data.csv.
"""
