"""The propagator: registers members, applies the placements to them, and reports their status."""
