"""Reservation: room on clusters that is held until its owners come, and is theirs alone."""
