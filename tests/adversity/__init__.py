"""Bad networks, bad peers and full disks: what the hub must survive."""
