"""Starting a job on a platform, and asking what became of it: a file per platform."""
