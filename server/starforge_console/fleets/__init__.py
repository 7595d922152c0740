"""Fleets: where jobs may be placed."""
