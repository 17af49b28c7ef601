"""The demo: a small shop, brought to Parquet, killed, resumed, changed, and compared with its source."""
