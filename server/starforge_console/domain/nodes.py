"""What nodes are called, where they may be reached, and what is advised when they are not. Pure."""

import ipaddress
import re
from collections.abc import Container
from enum import StrEnum
from itertools import count
from typing import Final

from starforge.contract.addresses import split_address

LONGEST_NAME: Final = 40
AWAY_AFTER_S: Final = 30.0
"""Three heartbeats: after such a silence a machine is away, its GPUs show as blocked, and nothing is placed there."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class NodeState(StrEnum):
    """What an administrator wants of a node."""

    ACTIVE = "active"
    DRAINING = "draining"
    LOST = "lost"
    REMOVED = "removed"


def name_node(hostname: str, taken: Container[str]) -> str:
    """A name for a machine that calls itself `hostname`: its first label, and a number when that is `taken`."""
    stem = _NOT_IN_NAMES.sub("-", hostname.partition(".")[0].lower()).strip("-")[:LONGEST_NAME].rstrip("-") or "node"
    if stem not in taken:
        return stem
    for number in count(2):
        suffix = f"-{number}"
        name = stem[: LONGEST_NAME - len(suffix)].rstrip("-") + suffix
        if name not in taken:
            return name
    raise AssertionError  # the count has no end


def explain_unreachable(why: str, advertise: str, joined_from: str) -> str:
    """`why` a node was not reached, with the advice that it may sit behind address translation where that shows."""
    host, _ = split_address(advertise)
    advertised, seen = _find_address(host), _find_address(joined_from)
    # A name says nothing about where a join may come from.
    if not why or advertised is None or seen is None or advertised == seen:
        return why
    return (
        f"{why}; it joined from {joined_from} and advertises {advertise}: NAT? Forward a port to it and join again"
        " with --advertise HOST:PORT"
    )


def _find_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
