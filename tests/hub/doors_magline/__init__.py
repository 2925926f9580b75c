"""magline over real sockets."""
