"""What people may do with jobs that are there: the one place behind the API and the pages."""
