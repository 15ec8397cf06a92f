"""config.ini: its text comes in, a frozen `Config` goes out, or every problem at once as a `ConfigError`.

Nothing here asks a host or writes a file; what the settings are used for is decided in the other rooms.
"""
