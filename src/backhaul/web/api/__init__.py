"""The API, a file per subject; each path, command and table share the word."""
