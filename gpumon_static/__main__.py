"""`python -m gpumon_static`: the same as `gpumon-static`."""

from gpumon_static.cli import run

run()
