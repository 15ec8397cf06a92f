#!/bin/sh
# Renew the page every GPUMON_INTERVAL seconds. With `health`: exit with 1 when at least two updates were missed,
# or when the page was made as far ahead of the clock, which has been put back since.
every=${GPUMON_INTERVAL:-300}
if [ "${1:-}" = health ]; then
  most=$((every * 2 / 60 + 1))
  [ -n "$(find "${GPUMON_SITE:-/site}/index.html" -mmin "-$most" ! -newermt "$most minutes")" ]
  exit
fi
trap 'exit 0' TERM INT
while :; do
  sleep "$every" &
  { gpumon-static fetch --changes && gpumon-static render; } &
  # A signal ends the wait at once; a run that takes longer than the interval delays the next one.
  wait
done
