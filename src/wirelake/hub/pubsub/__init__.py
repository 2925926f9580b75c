"""Pubsub."""
