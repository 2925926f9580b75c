"""Services, hub calls and typed arguments."""
