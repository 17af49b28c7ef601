"""The control plane over HTTP: an API for programs, and pages on the same services."""
