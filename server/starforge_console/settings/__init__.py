"""Settings: typed, described, read once at start."""
