"""The way to a server: kubeconfigs of members and of the hub, and the addresses in them."""
