"""Tests of topics, inboxes and clients."""
