"""A job's pools as placement and launches take them: the one conversion of a spec's resources. Pure."""

from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import PoolRequest


def build_pools(spec: JobSpec) -> tuple[PoolRequest, ...]:
    """The pools that `spec` asks for, in its order."""
    return tuple(
        PoolRequest(
            name=pool.name,
            nodes=pool.nodes,
            gpus_per_node=pool.gpus_per_node,
            series=pool.series,
            cpus=pool.cpus,
            memory_bytes=pool.memory_bytes,
        )
        for pool in spec.spec.resources.pools
    )
