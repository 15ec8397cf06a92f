"""Ask hosts: ssh, probe, parse. Hands on one `HostReading` per host."""
