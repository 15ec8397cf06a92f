"""A host's settings come in, the raw output of the probe goes out, or a `HostError` that says why not.

The only room that imports paramiko: connections, host keys, logins, jump hosts, ssh_config. openssh.py does
the same through the `ssh` program. What the output says is read in `probe/` and by the vendors.
"""
