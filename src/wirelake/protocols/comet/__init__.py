"""comet."""
