"""Programs for those who work on Wirelake; no part of the package."""
