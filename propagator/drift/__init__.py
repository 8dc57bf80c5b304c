"""What others changed on a member of what was applied: told, and repaired or left as it is."""
