"""The files of deploy/, checked with their own tools and with the hub."""
