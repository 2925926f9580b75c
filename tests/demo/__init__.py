"""Tests of `wirelake demo`."""
