"""Retention: what ended jobs left goes after a while, by one collector."""
