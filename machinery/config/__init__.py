"""How a server is reached: kubeconfigs of members and of the hub, and the addresses in them."""
