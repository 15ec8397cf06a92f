"""A host's settings come in, the raw output of the probe goes out, or a `HostError` with the reason.

The only room that imports paramiko: connections, host keys, logins, jump hosts, ssh_config. openssh.py does
the same through the `ssh` program. The output is parsed in `probe/` and by the vendors.
"""
