"""Replies of the REST daemon become `native` types: one module for each family of versions, and the notations."""

from starforge_console.executors.slurm.decode.family import Family, Unreadable

__all__ = ["Family", "Unreadable"]
