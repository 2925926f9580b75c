"""Tests of the tny door."""
