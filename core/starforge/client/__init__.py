"""The HTTP client of the console's API."""
