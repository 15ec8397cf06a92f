#!/bin/sh
# Install the programs that the tests use and this machine lacks. Arguments: further ones.
set -eu

missing=
want() { # program, package
  command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || missing="$missing $2"
}
want sshd openssh-server
want ssh openssh-client
want chromium chromium
want busybox busybox
want nginx nginx-light
want caddy caddy
want cron cron
want curl curl
want ip iproute2
want systemd-analyze systemd
want dash dash
want node nodejs
want zsh zsh
want tcsh tcsh
want fish fish
want prometheus prometheus
want promtool prometheus
want prometheus-node-exporter prometheus-node-exporter
want openssl openssl
want faketime faketime
want munged munge
want slurmctld slurmctld
want slurmd slurmd
want scontrol slurm-client
# What an admin's machine has: the steps of docs/deploy.md make their venv with it.
/usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
# What Ansible asks Debian's packages with.
/usr/bin/python3 -c 'import apt' 2>/dev/null || missing="$missing python3-apt"
# What Playwright's own program is linked with, and what Chromium writes with.
/sbin/ldconfig -p | grep -q 'libatomic\.so\.1' || missing="$missing libatomic1"
ls /usr/share/fonts/truetype/* >/dev/null 2>&1 || missing="$missing fonts-dejavu-core"

# What is named on the command line, for `make packages`.
for program; do want "$program" "$program"; done

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "The tests need these programs; please install:$missing" >&2
  exit 1
fi
echo "Installing for the tests:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
