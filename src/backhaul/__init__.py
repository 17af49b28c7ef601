"""backhaul: PostgreSQL tables to lakehouses and warehouses, completely and correctly."""

__version__ = "0.1.0"
