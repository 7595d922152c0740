"""How a job's pools are kept in their column."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from starforge.contract.launch import PoolRequest


def write_pools(pools: Sequence[PoolRequest]) -> str:
    """The column's text."""
    return json.dumps([asdict(pool) for pool in pools])


def read_pools(text: str) -> tuple[PoolRequest, ...]:
    """The pools of a column's text."""
    return tuple(PoolRequest(**pool) for pool in json.loads(text))


def count_nodes(pools: Sequence[PoolRequest]) -> int:
    """On how many nodes of all pools together an attempt runs."""
    return sum(pool.nodes for pool in pools)
