"""How a job's pools are kept in their column."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache

from starforge.contract.launch import PoolRequest


def write_pools(pools: Sequence[PoolRequest]) -> str:
    """The column's text."""
    return json.dumps([asdict(pool) for pool in pools])


@lru_cache(maxsize=1024)
def read_pools(text: str) -> tuple[PoolRequest, ...]:
    """The pools of a column's text: mostly the same object for the same text, for jobs have few shapes."""
    return tuple(PoolRequest(**pool) for pool in json.loads(text))


def count_nodes(pools: Sequence[PoolRequest]) -> int:
    """On how many nodes of all pools together an attempt runs."""
    return sum(pool.nodes for pool in pools)
