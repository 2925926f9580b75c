"""Datasource."""
