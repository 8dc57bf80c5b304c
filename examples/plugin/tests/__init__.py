"""Tests of the plugin: pytest in this folder's parent, with the package installed."""
