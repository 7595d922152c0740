"""The workspace: which files a job takes along, packed reproducibly, with provenance."""
