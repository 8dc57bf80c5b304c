"""The command line, and the playground that runs a hub and its members on one machine.

The top layer: it may import everything below it, and nothing below imports it.
"""
