"""Logs and metrics of the console itself."""
