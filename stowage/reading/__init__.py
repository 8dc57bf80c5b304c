"""Commands that read the hub's objects and print them: status, history, explain."""
