"""Tests of tokens that others sign."""
