"""backhaul's own Postgres database: what was exported, what is under way, and up to where."""
