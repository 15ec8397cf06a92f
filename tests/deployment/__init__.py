"""cron, systemd, Ansible, web servers, packages: for real."""
