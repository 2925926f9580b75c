"""What is in deploy/: it is checked by the tools of those who will read it, and by the hub."""
