"""Ingest: what jobs report."""
