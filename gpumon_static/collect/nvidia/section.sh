# NVIDIA: what one nvidia-smi prints, without what is not used; see probe.sh for the helpers.
#
#   smi-stderr   what it prints there       smi, smi-gz   nvidia-smi -q -x, as it is or packed
#   smi-status   its exit status            smi-list      nvidia-smi -L, where that is needed

# Last: those that only read files are asked before, and report whether there is another GPU.
vendors="$vendors nvidia"

# nvidia-smi's XML without what is not used (four fifths are clocks that the GPU could be set to; the
# list of old processes may be as long). Then, on stderr, whether `-L` is needed, and the PIDs for ps.
# `-L`: only there a slice of a GPU has a name, and a GPU that is missing here a number; and no user's text is in it,
# so that it shows which GPU of too many is none.
filter='
  skipped { if (/<\/accounted_processes>/) { skipped = 0; print } next }
  # The name of a process is a text of its user, with any tags in it: none of them counts, on the next lines neither.
  named { named = !/<\/process_name>/; print; next }
  /^[ \t]*<supported_graphics_clock>[0-9]* MHz<\/supported_graphics_clock>[ \t\r]*$/ { next }
  { sub(/^[ \t]+/, ""); print }
  at = index($0, "<process_name>") { named = !/<\/process_name>/; $0 = substr($0, 1, at - 1) }
  /<accounted_processes>/ && !/<\/accounted_processes>/ { skipped = 1 }
  /<current_mig>Enabled|Unable to determine the device handle/ { list = 1 }
  match($0, /<attached_gpus>[0-9]+/) { attached = substr($0, RSTART + 15, RLENGTH - 15) }
  { gpus += gsub(/<gpu id=/, "&") }
  /<(compute_)?processes>/ { listed = 1 }
  listed {
    while (match($0, /<pid>[0-9]+/)) {
      pid = substr($0, RSTART + 5, RLENGTH - 5)
      $0 = substr($0, RSTART + RLENGTH)
      if (length(pid) < 10 && !seen[pid]++ && count++ < 2000) pids = pids " " pid
    }
  }
  /<\/(compute_)?processes>/ { listed = 0 }
  END { printf "\n%s%s", (list || (attached && attached + 0 != gpus + 0) ? "list" : "no"), pids >"/dev/stderr" }'

# A driver that hangs keeps every nvidia-smi in the kernel for ever: another one would only hang too. Only those of
# this login count: any user can give a process that name. `-C` would add to `-u` what others have.
one_hangs() {
  [ "$GPUMON_WAS_LATE" = yes ] || return
  IFS=$newline
  for line in $(ps -u "$(id -u)" -o stat= -o comm=); do
    case $line in D*' nvidia-smi') break ;; esac
    line=
  done
  IFS=' '
  [ "$line" ]
}

# Where other GPUs were found and no sign of this vendor, nvidia-smi is not worth its second: images for a
# whole lab have it everywhere. Without any GPU it is run, and explains what is wrong with the driver.
is_nvidia_here() {
  smi=${GPUMON_NVIDIA_SMI:-nvidia-smi}
  command -v "$smi" >/dev/null || return
  [ "$other" ] || return 0
  [ -d "$proc/driver/nvidia" ] && return
  set +f
  for path in "$sys"/bus/pci/devices/*/vendor; do
    read -r maker <"$path" && [ "$maker" = 0x10de ] && break
    maker=
  done
  set -f
  [ "$maker" ]
}

ask_nvidia() {
  section smi-stderr
  xml=
  if ! is_nvidia_here; then
    status=127
  elif one_hangs; then
    echo 'one of an earlier run still hangs in the kernel, so none was started'
    status=124
  else
    xml=$(limited "$limit" smi-status "$smi" -q -x 4>&3)
    status=$?
  fi
  section smi-status
  echo "$status"
  if [ "$GPUMON_GZIP" = yes ] && command -v gzip >/dev/null; then
    section smi-gz
    found=$({ printf '%s\n' "$xml" | awk "$filter" 2>&4 | gzip >&3; } 4>&1)
  else
    section smi
    found=$(printf '%s\n' "$xml" | awk "$filter" 2>&1 >&3)
  fi
  found=${found##*"$newline"}
  case $found in *' '*) pids="$pids ${found#* }" ;; esac
  case $found in
    list*)
      section smi-list
      limited "$short" list-status "$smi" -L
      ;;
  esac
}
