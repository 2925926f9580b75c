"""Tests of the tny listener."""
