"""magline."""
