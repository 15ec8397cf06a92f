#!/bin/sh
# Renew the page every GPUMON_INTERVAL seconds. With `health`: exit with 1 when at least two updates were missed.
every=${GPUMON_INTERVAL:-300}
if [ "${1:-}" = health ]; then
  [ -n "$(find "${GPUMON_SITE:-/site}/index.html" -mmin "-$((every * 2 / 60 + 1))")" ]
  exit
fi
trap 'exit 0' TERM INT
while :; do
  sleep "$every" &
  { gpumon-static fetch --changes && gpumon-static render; } &
  # A signal ends the wait at once; a run that takes longer than the interval delays the next one.
  wait
done
