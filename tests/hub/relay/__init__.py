"""Tests of the relay: the backend and the gateway."""
