# AMD: what the kernel writes into sysfs; no tool of AMD's is needed. See probe.sh for the helpers.
#
#   amd          drm/card1/device/gpu_busy_percent:97          a file of /sys/class, and a line of it
#                kfd/kfd/topology/nodes/1/properties:location_id 768
#   amd-status   exit status of the reader; 124 or 137: it hung
#   amd-names    744C, C8, AMD Radeon RX 7900 XTX              what libdrm calls these cards

vendors="amd $vendors"

# A card is for computing where amdkfd knows it. Without that driver nothing is read, and nothing is printed.
ask_amd() {
  [ -d "$sys/class/kfd/kfd/topology" ] || return
  devices=
  mine=
  set +f
  for path in "$sys"/class/drm/card[0-9]*/device/vendor; do
    read -r maker <"$path" && [ "$maker" = 0x1002 ] || continue
    read -r device <"${path%vendor}device" && devices="$devices${devices:+|}${device#0x}"
    mine=amd
  done
  set -f
  [ "$mine" ] || return
  other=$mine
  section amd
  read -r line <"$proc/sys/kernel/osrelease" && echo "release:$line"
  limited "$short" amd-status sh -c "$read_amd" sh "$sys/class"
  status=$?
  section amd-status
  echo "$status"
  section amd-names
  case $devices in
    '' | *[!0-9a-fA-F\|]*) ;;
    *) grep -isE "^($devices)," "$share/libdrm/amdgpu.ids" ;;
  esac
  list_amd_processes
}

list_amd_processes() {
  count=0
  set +f
  for path in "$sys"/class/kfd/kfd/proc/[0-9]*; do
    case ${path##*/} in *[!0-9]* | ??????????*) continue ;; esac
    [ "$((count += 1))" -le 2000 ] || break
    pids="$pids ${path##*/}"
  done
  set -f
}

# In a shell of its own, to be ended where a file hangs. Some readings wake a card that sleeps, which would
# keep it awake for ever: of such a card only what the driver knows by itself is read.
read_amd='
cd "$1" || exit
count=0
{
  for card in drm/card[0-9]*; do
    case $card in *-*) continue ;; esac
    read -r maker <$card/device/vendor && [ "$maker" = 0x1002 ] || continue
    [ "$((count += 1))" -le 128 ] || break
    for name in vendor device revision unique_id product_name mem_info_vram_used mem_info_vram_total \
      mem_info_gtt_used mem_info_gtt_total current_link_width max_link_width \
      current_link_speed max_link_speed vbios_version serial_number power/runtime_status; do
      echo $card/device/$name
    done
    power=
    read -r power <$card/device/power/runtime_status
    [ "$power" = suspended ] && continue
    echo $card/device/gpu_busy_percent
    for name in name temp1_input temp1_crit temp2_input temp2_crit temp3_input temp3_crit power1_average \
      power1_input power1_cap fan1_input fan1_max pwm1 pwm1_max in1_label freq1_input; do
      echo $card/device/hwmon/hwmon*/$name
    done
    echo $card/device/ras/*_err_count
  done
  echo kfd/kfd/topology/nodes/*/gpu_id
  [ -d kfd/kfd/proc ] && echo kfd/kfd/proc/*/vram_* kfd/kfd/proc/*/sdma_* kfd/kfd/proc/*/stats_*/cu_occupancy
  echo ../module/amdgpu/version
} | xargs grep -s "" /dev/null
echo drm/card[0-9]*/device/uevent kfd/kfd/topology/nodes/*/properties |
  xargs grep -sE "^(PCI_SLOT_NAME=|(location_id|domain|gfx_target_version|simd_count|cpu_cores_count) )" /dev/null
[ -d kfd/kfd/proc ] && echo processes:
exit 0'
