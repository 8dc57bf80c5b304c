"""Changes of applied objects on a member: reported, and repaired or kept."""
