"""The contract: what console, executors, machines and jobs agree on. It imports nothing of the rest of StarForge."""
