"""Where a collector has its files comes in; the texts that cron, systemd, web servers, sshd and Ansible read
go out.

installation.py holds the values, schedule.py turns an interval into a schedule, files.py fills the templates
of templates/deploy/. Nothing here writes a file; those of deploy/ are the same texts, by `make deploy-files`.
"""

# Here, and not in files.py, so that --help reads no settings.
UNITS = ("gpumon-static.service", "gpumon-static.timer", "gpumon-static-failure.service")
PRINTED = ("crontab", "systemd", "nginx", "caddy", "authorized_keys", "ansible-vars")
"""What `init --print` offers by these names; it also prints the other files by their names."""
