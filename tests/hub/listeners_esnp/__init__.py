"""The ESNP listener over real sockets."""
