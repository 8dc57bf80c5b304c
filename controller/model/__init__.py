"""The hub's objects as the controller reads them."""
