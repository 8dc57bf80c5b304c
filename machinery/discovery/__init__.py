"""What a server says of itself: the kinds it has, who may do what, the policies in force."""
