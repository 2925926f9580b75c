"""comet over real sockets."""
