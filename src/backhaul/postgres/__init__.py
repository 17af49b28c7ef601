"""Everything that knows how PostgreSQL works: its catalog, types, snapshots and bytes."""
