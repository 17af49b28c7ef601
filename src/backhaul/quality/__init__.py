"""Checks of data: what they are, how they become one aggregate, and what their values mean."""
