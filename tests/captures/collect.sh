#!/bin/sh
# What nvidia-smi prints on this machine, and the files of AMD's driver, for the tests of gpumon-static: with
# everything that a parser needs, and without what tells who or where you are.
#
#   sh collect.sh > capture.txt      then look at it, and attach it to an issue
#
# Masked: UUIDs, serial numbers, this machine's name, names of processes, PIDs, names of virtual machines.
# The same value gets the same mask. Kept: bus ids, models, versions, all readings.
# GPUMON_SYS: for the tests.

sys=${GPUMON_SYS:-/sys}
amd=
for path in "$sys"/class/drm/card*/device/vendor; do
  [ -f "$path" ] && read -r vendor <"$path" && [ "$vendor" = 0x1002 ] && amd=yes
done
if [ ! "$amd" ] && ! command -v nvidia-smi >/dev/null 2>&1; then
  echo 'collect.sh: nvidia-smi is not installed, or not on the PATH, and there is no AMD GPU' >&2
  exit 1
fi

mask='
function number(kind, value) {
  if (!((kind, value) in numbers)) numbers[kind, value] = ++last[kind]
  return numbers[kind, value]
}
function everywhere(text, from, to,    done, at) {
  while (from != "" && (at = index(text, from))) {
    done = done substr(text, 1, at - 1) to
    text = substr(text, at + length(from))
  }
  return done text
}
# All between <tag> and the last </tag> of a line: names of processes are not always escaped.
function inner(text, tag, kind, form,    open, start, rest, stop, at) {
  open = "<" tag ">"
  if (!(start = index(text, open))) return text
  rest = substr(text, start + length(open))
  stop = 0
  while (at = index(substr(rest, stop + 1), "</" tag ">")) stop += at
  if (!stop) { unfinished = tag; return substr(text, 1, start + length(open) - 1) "masked" }
  if (rest ~ /^(N\/A|\[N\/A\]|\[Not Found\])</) return text
  return substr(text, 1, start + length(open) - 1) \
    sprintf(form, number(kind, substr(rest, 1, stop - 1))) substr(rest, stop)
}
BEGIN {
  hex = "[0-9a-fA-F]"
  four = hex hex hex hex
  uuid = four four "-" four "-" four "-" four "-" four four four
  serials = split("serial pdi chassis_serial_number gpu_fabric_guid ibguid rack_serial_number vm_id", serial, " ")
}
unfinished != "" {
  if (!index($0, "</" unfinished ">")) next
  sub(".*</" unfinished ">", "</" unfinished ">")
  unfinished = ""
}
# Files of AMD: the PID is in the path, and what is unique has a file of its own.
/^kfd\/kfd\/proc\/[0-9]/ {
  split($0, part, "/")
  sub("proc/" part[4] "/", "proc/" number("pid", part[4]) "/")
}
/\/(unique_id|serial_number|fru_id):./ || /:(unique_id|hive_id) [1-9]/ {
  value = $0
  sub(/.*[: ]/, "", value)
  sub(/[^: ]*$/, sprintf("%016d", number("unique", value)))
}
{
  line = inner($0, "process_name", "process", "process-%d")
  line = inner(line, "vm_name", "machine", "machine-%d")
  line = inner(line, "pid", "pid", "%d")
  for (i = 1; i <= serials; i++) line = inner(line, serial[i], "serial", "0000%09d")
  masked = ""
  while (match(line, uuid)) {
    masked = masked substr(line, 1, RSTART - 1) \
      sprintf("00000000-0000-0000-0000-%012d", number("uuid", tolower(substr(line, RSTART, RLENGTH))))
    line = substr(line, RSTART + RLENGTH)
  }
  line = everywhere(everywhere(masked line, host, "host"), short, "host")
  print line
}'

host=$(uname -n)
short=${host%%.*}
# A name of one or two letters would be found in the middle of words.
[ "${#short}" -gt 2 ] || short=
{
  if command -v nvidia-smi >/dev/null 2>&1; then
    nvidia-smi -q -x 2>&1
    echo "# exit status $?; then nvidia-smi -L:"
    nvidia-smi -L 2>&1
    echo "# exit status $?; $(uname -srm)"
  fi
  if [ "$amd" ]; then
    echo "# /sys/class of AMD's driver; $(uname -srm)"
    # A value a file, of one line or a few; what cannot be read is left out, and so is what is known to be binary.
    cd "$sys/class" && for path in drm/card[0-9]*/device drm/card[0-9]*/device/hwmon/hwmon* drm/card[0-9]*/device/ras \
      drm/card[0-9]*/device/power kfd/kfd/topology/nodes/* kfd/kfd/proc/* kfd/kfd/proc/*/stats_* ../module/amdgpu; do
      case $path in *-*) continue ;; esac
      for file in "$path"/*; do
        case ${file##*/} in
          config | resource* | rom | vbios_* | pp_table | gpu_metrics | *bad_pages* | ip_discovery | modalias) continue ;;
        esac
        [ -f "$file" ] && grep -s "" /dev/null "$file"
      done
    done
    # What libdrm calls the cards.
    for path in drm/card[0-9]*/device/device; do
      [ -f "$path" ] && read -r device <"$path" && grep -is "^${device#0x}," /usr/share/libdrm/amdgpu.ids
    done
  fi
} | LC_ALL=C awk -v host="$host" -v short="$short" "$mask"
