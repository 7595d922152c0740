"""The console: StarForge's control plane."""
