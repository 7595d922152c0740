"""Backups of a console, and the restored console."""
