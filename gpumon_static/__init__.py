"""gpumon-static: a static page of a lab's GPUs, fetched over SSH by cron."""

__version__ = "0.1.0"
