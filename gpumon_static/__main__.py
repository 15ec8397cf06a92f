"""`python -m gpumon_static`: the same as `gpumon-static`."""

from gpumon_static.commands.exits import run

run()
