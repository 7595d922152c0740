"""Hardware: GPU series and resource profiles."""
