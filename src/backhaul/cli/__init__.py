"""The command line: one file per verb group, and nothing heavy imported before a command needs it."""
