"""Where a collector has its files comes in; the texts that cron, systemd, web servers, sshd and Ansible read
go out.

installation.py holds the values, schedule.py turns an interval into a schedule, files.py fills the templates
of templates/deploy/. Nothing here writes a file; those of deploy/ are the same texts, by `make deploy-files`.
"""
