"""Options that several commands share, in one module: `common`."""
