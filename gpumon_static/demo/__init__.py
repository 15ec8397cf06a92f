"""A lab to try everything on: SSH hosts on loopback that answer the real probe as GPU hosts would.

    lab.py       which hosts there are: a function of the spec (seed, hosts, gpus)
    jobs.py      who runs what on which GPU, when: a function of the lane and the time
    slurm.py     which GPUs Slurm has given to these jobs, and what scontrol prints of it
    workload.py  host and time to the reading it would give, made in microseconds, for any past time too
    answers.py   a reading to what the host's programs print (nvidia-smi, ps, /proc); xml.py is the long one,
                 sysfs.py has the files of AMD's driver
    server.py    SSH hosts that run the probe with those answers
    cluster.py   the whole lab, up and running: a context manager, for `demo`, the tests and the bench
    past.py      the runs of the last weeks, for the history
    run.py       `gpumon-static demo`: the lab, then the same fetch and render as everywhere

Nothing is drawn from a global random generator: the same seed and time give the same lab.
"""

DEFAULT_HOSTS = 14
DEFAULT_DAYS = 30
MOST_HOSTS = 1000
MOST_GPUS = 16
DEFAULT_PORT = 8080
DEFAULT_DIRECTORY = "gpumon-demo"
