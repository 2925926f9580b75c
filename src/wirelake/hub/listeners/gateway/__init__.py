"""The hub as a tny gateway: its clients go through tunnels to backends."""
