"""Telling people: a file per kind of channel."""
