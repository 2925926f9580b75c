"""Tests of processes that offer services."""
