"""The ESNP door over real sockets."""
