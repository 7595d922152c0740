"""HTTP: API, ingest, pages."""
