"""What the statuses of the hub's objects say: status, explain, history, drift, rollouts."""
