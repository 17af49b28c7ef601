"""The command line: one file per verb group; nothing heavy is imported before it is needed."""
