"""What a command prints, and how."""
