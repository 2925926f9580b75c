"""Programs for those who work on Wirehouse; no part of the package."""
