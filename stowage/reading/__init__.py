"""Commands that read what stands on the hub and print it at once: status, history, explain."""
