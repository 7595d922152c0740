"""Attempts as RayJobs of a Kubernetes cluster, whose KubeRay operator starts Ray and whose scheduler chooses nodes."""
