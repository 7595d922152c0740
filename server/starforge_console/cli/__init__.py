"""The command `starforge-console`, one module for each group of its commands."""
