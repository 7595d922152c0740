"""Recipes: the catalog of methods, the lock of an experiment, adapters."""
