"""Calls of plugins, guarded against exceptions, time-outs and wrong answers."""
