"""The command line, and the playground that runs a hub and its members on one machine."""
