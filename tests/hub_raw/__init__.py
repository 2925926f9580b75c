"""Clients without the project's codecs, and the flows of the documents over sockets."""
