"""`stowage migrate`: what another control plane runs on members becomes Stowage's, step by step."""
