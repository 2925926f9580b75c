"""Three hubs on one database under faults, and a check of everything that their clients saw."""
