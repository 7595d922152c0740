"""Executors: where a job's attempt runs."""
