# The last lines of the probe, after the sections of all vendors.
main </dev/null
exit
