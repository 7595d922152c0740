"""The command line sf."""
