"""Blobs: content-addressed files."""
