"""Reservation: room on clusters that is held for its owners alone, until they come."""
