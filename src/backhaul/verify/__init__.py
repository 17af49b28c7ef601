"""Is a destination's table equal to its source? Segments first, then the keys of those that differ."""
