"""Tests of what all connections share: accepting, limits, memory."""
