"""Hosts over a real sshd: keys, config, jump hosts, patience."""
