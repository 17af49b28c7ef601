"""Our own table language: columns, keys, schemas, and how two of them differ."""
