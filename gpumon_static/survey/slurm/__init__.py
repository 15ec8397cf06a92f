"""What Slurm reports, in words: closed nodes, what is waited for, by when GPUs are free.

Readings joined with Slurm's answer, its report and gpus.json come in; sentences and times go out. What
scontrol prints is read in collect/slurm/.
"""
