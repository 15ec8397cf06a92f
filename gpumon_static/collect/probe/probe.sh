#!/bin/sh
# The gpumon-static probe: prints the state of one GPU host, in marked sections on stdout.
#
# It is sent to `sh -s` over SSH, or installed on the host as a forced command. It needs no privilege,
# reads no input, writes no file and runs one ps and what the vendors' sections need: one nvidia-smi where
# NVIDIA is. POSIX sh: dash, bash, busybox.
#
# This file is its first part. `gpumon-static probe` prints all of it: this file, `section.sh` of each vendor
# beside it, which adds its name to `vendors` and has a function `ask_NAME`, and run.sh.
#
#   @@gpumon begin 4 4f1d...       version of this script, and a token no process name can guess
#   @@gpumon 4f1d... smi-stderr    a section starts; what follows is its text
#   ...
#   @@gpumon 4f1d... end           nothing was cut off
#
# GPUMON_TIMEOUT: seconds that a vendor's tool may take. GPUMON_DISKS: mount points, one per line.
# GPUMON_COMMAND_LINES: `yes` to send those too. GPUMON_GZIP: `yes` where the collector can unpack the XML.
# GPUMON_WAS_LATE: `yes` where the last run timed out. GPUMON_VENDORS: which to look for; by default all.
# GPUMON_NVIDIA_SMI: its path, where it is in none of the usual directories.
# GPUMON_SENT: `sent` by the collector. An installed script gets no settings but those of `env` in authorized_keys, where
# mount points have a colon between them, and reports what it got.
# GPUMON_ASK: `slurm` to report what Slurm knows of its cluster, and nothing else. An installed probe is asked
# for that by the command of the connection (SSH_ORIGINAL_COMMAND), of which it takes nothing else.
# GPUMON_PROC, GPUMON_SYS, GPUMON_SHARE: for the tests and the demo.

newline='
'
vendors=

section() { printf '\n@@gpumon %s %s\n' "$token" "$1" >&3; }

# Runs a command that may hang, for so many seconds, and no longer than the connection lasts. sshd does not
# report when it breaks, so once a second an empty line is written: that fails then. With `setsid` all
# that the command starts is one group, to be ended together. Its stderr is 4.
limited() {
  most=$1
  ended=$2
  shift 2
  group=
  if command -v setsid >/dev/null; then
    group=-
    set -- setsid "$@"
  fi
  "$@" 2>&4 3>&- 4>&- &
  job=$!
  watch >/dev/null &
  watcher=$!
  wait "$job"
  set -- $?
  kill "$watcher"
  return "$1"
}

watch() {
  trap 'kill $!; exit' TERM
  trap '' PIPE
  while [ "$most" -gt 0 ]; do
    a_second
    most=$((most - 1))
    printf '\n' >&3 && kill -0 "$$" || leave
  done
  kill -9 "$group$job"
  a_second
  # Still here: what hangs in the kernel cannot be killed. The probe exits all the same.
  section "$ended"
  echo 124 >&3
  section end
  leave
}

a_second() {
  sleep 1 3>&- 4>&- &
  wait $!
}

leave() {
  kill -9 "$group$job"
  read -r _ _ _ parent _ </proc/self/stat
  kill -9 "$parent" "$$"
  exit
}

# One line per PID: pid uid elapsed state user(32) command; or command(16) arguments. Our own PID is in the list, so
# that ps succeeds where it understands the options, and its answer is complete.
list_processes() {
  IFS=,
  all="$*"
  IFS=' '
  if [ "$command_lines" = yes ]; then
    # Arguments are in the memory of a process, and a process that hangs may block its reader.
    listed=$(limited "$short" ps-status \
      ps --cols 300 -o pid= -o uid= -o etime= -o stat= -o user:32= -o comm:16= -o args= -p "$all") && return
    command_lines=
  fi
  listed=$(ps -ww -o pid= -o uid= -o etime= -o stat= -o user:32= -o comm= -p "$all") && return
  listed=$(owners "$@")
}

# What every user can see of a process: its owner. For a host without procps, or one that hides the rest.
owners() { cd "$proc" && stat -c '%n %u - - %-32U' "$@"; }

# With hidepid a process that ps does not list may exist. The first one always does.
look_behind_hidepid() {
  read -r line <"$proc/1/stat" && return
  section hidden
  if [ -d "$proc/1" ]; then
    (owners "$@")
  else
    echo all
  fi
}

# Slurm, Docker and others can be recognised in the cgroup of a process.
find_jobs() {
  paths=
  for pid; do
    paths="$paths $pid/cgroup"
  done
  section cgroups
  # shellcheck disable=SC2086
  groups=$(cd "$proc" && grep ':/.' /dev/null $paths)
  printf '%s\n' "$groups"
}

# The names behind the numbers in cgroups and in ps, which also cuts a name of more than 32 letters.
find_names() {
  strangers=
  IFS=$newline
  for line in $groups; do
    case $line in
      */uid_[0-9]*) uid=${line##*/uid_} ;;
      */user-[0-9]*.slice*) uid=${line##*/user-} ;;
      *) continue ;;
    esac
    uid=${uid%%[!0-9]*}
    case $listed in *" $uid "*) ;; *) ask_for "$uid" ;; esac
  done
  for line in $listed; do
    IFS=' '
    # shellcheck disable=SC2086
    set -- $line
    case $5 in
      "$2") ask_for "$2" ;;
      *+) [ "${#5}" -lt 32 ] || ask_for "$2" ;;
    esac
    IFS=$newline
  done
  IFS=' '
  if [ "$strangers" ]; then
    section names
    # shellcheck disable=SC2086
    getent passwd $strangers
  fi
}

ask_for() {
  case " $strangers " in *" $1 "*) ;; *) strangers="$strangers${strangers:+ }$1" ;; esac
}

# With builtins of the shell only: each process would be one more on every host, every five minutes.
describe_machine() {
  section load
  read -r line <"$proc/loadavg" && echo "$line"
  section uptime
  read -r line _ <"$proc/uptime" && echo "$line"
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
      MemTotal:* | MemFree:* | MemAvailable:* | Buffers:* | Cached:* | SwapTotal:* | SwapFree:*) echo "$line" ;;
    esac
  done <"$proc/meminfo"
}

# How busy the CPUs were since the probe started. The kernel counts hundredths of a second, per core; under a fifth of a
# second they are too coarse.
describe_cpu() {
  cpu_before=$cpu
  ticks_before=$ticks
  read_cpu
  if [ "$ticks" -gt "$ticks_before" ] && [ $((ticks - ticks_before)) -lt $((20 * count)) ]; then
    sleep 0.25
    read_cpu
  fi
  section cpu
  printf '%s\n%s\n' "$cpu_before" "$cpu"
}

read_cpu() {
  read -r _ a b c d e f g h _ <"$proc/stat"
  cpu="$a $b $c $d $e $f $g $h"
  ticks=$((${a:-0} + ${b:-0} + ${c:-0} + ${d:-0} + ${e:-0} + ${f:-0} + ${g:-0} + ${h:-0}))
}

# The last section, because a file system behind a dead server hangs. The root does not.
describe_disks() {
  section disks
  IFS=$newline
  # shellcheck disable=SC2086
  set -- $disks
  IFS=' '
  filesystems=
  spinning=
  if [ "$*" != / ]; then
    filesystems=$(limited "$short" disks-status df -kP "$@")
  fi
  case $filesystems in *%*) ;; *) filesystems=$(df -kP /) ;; esac
  IFS=$newline
  for line in $filesystems; do
    does_it_spin "${line%% *}"
    spinning="$spinning$rotational $line$newline"
  done
  printf '%s' "$spinning"
}

does_it_spin() {
  rotational=-
  name=${1#/dev/}
  case $1 in
    /dev/mapper/*)
      set +f
      for path in "$sys"/block/dm-*; do
        read -r mapped <"$path/dm/name" && [ "/dev/mapper/$mapped" = "$1" ] && name=${path##*/}
      done
      set -f
      ;;
    /dev/*) ;;
    *) return ;;
  esac
  # A partition has its disk above it.
  for path in "$name" "$name/.."; do
    read -r rotational <"$sys/class/block/$path/queue/rotational" && return
  done
}

# The whole cluster, as text: JSON is missing or incomplete before Slurm 24.05. Times are in UTC.
ask_slurm() {
  PATH=$PATH:/opt/slurm/bin:/usr/local/slurm/bin:/opt/slurm/current/bin:/cm/shared/apps/slurm/current/bin
  TZ=UTC
  SLURM_TIME_FORMAT=standard
  export PATH TZ SLURM_TIME_FORMAT
  if ! command -v scontrol >/dev/null; then
    section slurm-missing
    return
  fi
  section slurm-stderr
  jobs=$(ask_slurms scontrol -o -d show job)
  nodes=$(ask_slurms scontrol -o -d show node)
  # Of what scontrol prints, names and comments are the users' own texts, whole records of jobs among them. In these
  # columns there is none: they confirm which records are real. After scontrol, so that no job is missing here.
  owners=$(ask_slurms squeue -h -t all -o '%A|%U|%u|%T|%N')
  send slurm-jobs "$jobs"
  send slurm-nodes "$nodes"
  send slurm-owners "$owners"
  section slurm-version
  scontrol --version
}

# At most 16 MiB, in a third of the time each, and the command's own status in the last line: of a pipe, sh has
# that of the last command only.
ask_slurms() {
  exec 5>&1
  status=$(
    {
      {
        limited "$(((limit + 2) / 3))" slurm-late "$@" 4>&3 5>&- 6>&-
        echo $? >&6
      } | head -c 16777216 >&5
    } 6>&1
  )
  printf '\nstatus %s' "$status"
}

send() {
  if command -v gzip >/dev/null; then
    section "$1-gz"
    printf '%s\n' "$2" | gzip >&3
  else
    section "$1"
    printf '%s\n' "$2"
  fi
}

# One per line; of mount points each.
report_settings() {
  section settings
  printf '%s\n' "GPUMON_TIMEOUT=$limit" "GPUMON_COMMAND_LINES=$command_lines" "GPUMON_VENDORS=$GPUMON_VENDORS" \
    "GPUMON_NVIDIA_SMI=$GPUMON_NVIDIA_SMI"
  IFS=:$newline
  # shellcheck disable=SC2086
  set -- $disks
  disks=
  IFS=' '
  for disk; do
    printf 'GPUMON_DISKS=%s\n' "$disk"
    disks="$disks$disk$newline"
  done
}

main() {
  LC_ALL=C
  PATH=$PATH:/usr/bin:/bin:/usr/local/bin:/usr/local/nvidia/bin:/opt/bin:/usr/lib/wsl/lib:/run/current-system/sw/bin
  export LC_ALL PATH
  limit=${GPUMON_TIMEOUT:-25}
  short=$((limit < 5 ? limit : 5))
  disks=${GPUMON_DISKS-/}
  command_lines=$GPUMON_COMMAND_LINES
  proc=${GPUMON_PROC:-/proc}
  sys=${GPUMON_SYS:-/sys}
  share=${GPUMON_SHARE:-/usr/share}
  pids=
  other=
  IFS=' '
  set -f
  # 3: out, also from inside $(...).
  exec 3>&1 4>/dev/null 2>/dev/null
  read -r token </proc/sys/kernel/random/uuid || token=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
  token=${token:-$$}
  printf '\n@@gpumon begin 4 %s\n\n@@gpumon %s probe\n%s\n' "$token" "$token" "${GPUMON_SENT:-installed}"

  section clock
  date +%s
  if [ "$GPUMON_SENT" != sent ]; then report_settings; fi
  case $SSH_ORIGINAL_COMMAND in *GPUMON_ASK=slurm*) GPUMON_ASK=slurm ;; esac
  if [ "$GPUMON_ASK" = slurm ]; then
    ask_slurm
    section end
    return
  fi
  read_cpu
  for vendor in ${GPUMON_VENDORS:-$vendors}; do
    "ask_$vendor"
  done
  # In one write, because each line written alone is a packet of its own.
  facts=$(describe_all 3>&1)
  printf '%s\n' "$facts"
  if [ "$disks" ]; then describe_disks; fi
  section end
}

describe_all() {
  # shellcheck disable=SC2086
  list_processes "$$" $pids
  section ps
  printf '%s\n' "$listed"
  if [ "$command_lines" = yes ]; then section with-arguments; fi
  if [ "$pids" ]; then
    # shellcheck disable=SC2086
    look_behind_hidepid $pids
    # shellcheck disable=SC2086
    find_jobs $pids
    find_names
  fi
  describe_machine
  describe_cpu
}
