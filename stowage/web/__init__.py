"""The web page: what is wrong in a fleet, why each unit is where it is, and what would be."""
