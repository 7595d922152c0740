"""The fleet kind `slurm`: jobs of a Slurm cluster, asked by its REST daemon."""
