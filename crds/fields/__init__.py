"""Parts that several kinds are made of: selectors, affinity, templates, shares and their reasons.

A module here is no kind and has no manifest of its own; the kinds in the folder above use it.
"""
