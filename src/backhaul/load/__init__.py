"""From staged files to destination tables: planned, staged, checked, published, recorded."""
