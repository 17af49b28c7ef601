"""The lake: Apache Iceberg tables, merged on a branch, checked there, published by a fast-forward."""
