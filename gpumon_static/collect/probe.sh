#!/bin/sh
# The gpumon-static probe: what one GPU host has to tell, in marked sections on stdout.
#
# It is sent to `sh -s` over SSH, or installed on the host as a forced command. It needs no privilege,
# takes no input, writes no file and runs one nvidia-smi and one ps. POSIX sh: dash, bash, busybox.
#
#   @@gpumon begin 1 4f1d...       version of this format, and a token no process name can guess
#   @@gpumon 4f1d... smi-stderr    a section starts; what follows is its text
#   ...
#   @@gpumon 4f1d... end           nothing was cut off
#
# GPUMON_TIMEOUT: seconds that nvidia-smi may take. GPUMON_PROC: another /proc, for the demo cluster.

section() { printf '\n@@gpumon %s %s\n' "$token" "$1"; }

# A driver that hangs must not keep a process here for ever; where there is no `timeout`, sshd ends us.
limited() {
  if timeout -k 2 5 true 2>/dev/null; then
    timeout -k 2 "$limit" "$@"
  elif timeout 5 true 2>/dev/null; then
    timeout "$limit" "$@"
  else
    "$@"
  fi
}

# One line per PID: pid uid elapsed state user(32) command. Our own PID is in the list, so that ps
# succeeds where it understands the options, and its answer is complete.
list_processes() {
  ps -ww -o pid= -o uid= -o etime= -o stat= -o user:32= -o comm= -p "$$${pids:+,$pids}" 2>/dev/null && return
  for pid in $(echo "$$,$pids" | tr ',' ' '); do
    read -r name 2>/dev/null <"$proc/$pid/comm" || continue
    # shellcheck disable=SC2046
    printf '%s %s - - %-32s %s\n' "$pid" $(stat -c '%u %U' "$proc/$pid" 2>/dev/null || echo '- -') "$name"
  done
}

# With the shell's own words only: a process less is a process less, on every host, every five minutes.
describe_machine() {
  section load
  read -r line <"$proc/loadavg" && echo "$line"
  section cpus
  count=0
  while read -r name _; do
    case $name in
      cpu[0-9]*) count=$((count + 1)) ;;
      cpu) ;;
      *) break ;;
    esac
  done <"$proc/stat"
  echo "$count"
  section memory
  while read -r line; do
    case $line in
      MemTotal:* | MemFree:* | MemAvailable:* | Buffers:* | Cached:*) echo "$line" ;;
    esac
  done <"$proc/meminfo"
}

main() {
  LC_ALL=C
  PATH=$PATH:/usr/bin:/bin:/usr/local/bin:/usr/local/nvidia/bin:/opt/bin:/usr/lib/wsl/lib:/run/current-system/sw/bin
  export LC_ALL PATH
  limit=${GPUMON_TIMEOUT:-25}
  proc=${GPUMON_PROC:-/proc}
  read -r token </proc/sys/kernel/random/uuid 2>/dev/null ||
    token=$(od -An -N8 -tx1 /dev/urandom 2>/dev/null | tr -d ' \n')
  token=${token:-$$}
  printf '\n@@gpumon begin 1 %s\n' "$token"

  section clock
  date +%s

  # stderr goes straight out, through 3; stdout is kept, because the PIDs to ask ps for are in it.
  exec 3>&1
  section smi-stderr
  if command -v nvidia-smi >/dev/null 2>&1; then
    xml=$(limited nvidia-smi -q -x 2>&3)
    status=$?
  else
    xml=
    status=127
  fi
  section smi-status
  echo "$status"
  # Four fifths of an answer are clocks that the GPU could be set to; nobody asks for those.
  section smi
  printf '%s\n' "$xml" |
    sed '/^[[:space:]]*<supported_graphics_clock>[0-9]* MHz<\/supported_graphics_clock>[[:space:]]*$/d'

  pids=$(printf '%s\n' "$xml" | awk '
    /<(compute_)?processes>/ { listed = 1 }
    listed && /<pid>/ {
      gsub(/[^0-9]/, "")
      if ($0 != "" && !seen[$0]++ && count++ < 2000) printf "%s%s", (count > 1 ? "," : ""), $0
    }
    /<\/(compute_)?processes>/ { listed = 0 }')
  section ps
  list_processes

  describe_machine 2>/dev/null

  section end
}

main </dev/null
exit
