"""Explanations of what went wrong, from evidence alone."""
