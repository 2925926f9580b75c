"""Nothing that was confirmed is lost, however often the hub is killed."""
