"""Bad lines, bad peers, bad disks: what the hub must live with."""
