"""Tests of `wirehouse demo`."""
