"""Warehouses and lakes: one contract (base), then a folder for each, with the same files."""
