"""Assembly: JobSpec, fleet and settings become a LaunchRequest and a capsule."""
