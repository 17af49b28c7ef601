"""The demo: a small shop is brought to Parquet, killed, resumed, changed and compared."""
