"""The command line: exit status, words, files, signals."""
