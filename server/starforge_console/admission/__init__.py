"""Admission: an ordered tuple of gates."""
