"""What nodes are called, how they stand, and what is advised when they are not reached. Pure."""

import ipaddress
import re
from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final

from starforge.contract.addresses import split_address
from starforge.said.sentence import say

LONGEST_NAME: Final = 40
AWAY_AFTER_S: Final = 30.0
"""Three heartbeats: after such a silence a machine is away, its GPUs show as blocked, and nothing is placed there."""
DRAINED: Final = "drained"
"""Said where an administrator gave no reason."""
NOT_TRIED: Final = say("host.not_tried")
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")


class NodeState(StrEnum):
    """What an administrator wants of a node."""

    ACTIVE = "active"
    DRAINING = "draining"
    LOST = "lost"
    REMOVED = "removed"


class NodeStatus(StrEnum):
    """How a node is."""

    READY = "ready"
    DRAINING = "draining"
    LOST = "lost"
    REMOVED = "removed"
    JOINING = "joining"
    AWAY = "away"
    UNREACHABLE = "unreachable"
    SUPERSEDED = "superseded"
    UNFIT = "unfit"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known of a node at one moment.

    Attributes:
        wanted: What an administrator wants of it, and why it drains.
        heard_s: Seconds since it last told something; None: nothing since the console started.
        reach: Why it did not answer when it was last called; empty when it did, None when nobody has called it yet.
        two_daemons: Two daemons speak with its identity.
        unfit: Why its own daemon takes no jobs; empty when it does.

    """

    wanted: NodeState = NodeState.ACTIVE
    drained_why: str = ""
    heard_s: float | None
    reach: str | None
    two_daemons: bool = False
    unfit: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a node is, in a word, and why; `is_silent` when nobody knows what becomes of what runs there."""

    status: NodeStatus
    why: str
    is_silent: bool

    @property
    def refusal(self) -> str:
        """Why nothing is placed there, for whoever does not see the status; empty when jobs are placed."""
        if self.status is not NodeStatus.DRAINING:
            return self.why
        return say("host.draining") if self.why in {"", DRAINED} else say("host.draining_why", why=self.why)


def is_away(heard_s: float | None) -> bool:
    """Whether a node that was last heard so many seconds ago, or never (None), counts as away."""
    return heard_s is None or heard_s > AWAY_AFTER_S


def decide_standing(facts: NodeFacts) -> Standing:
    """How the node is: of all that keeps jobs away, the first in this order counts, what is worst before the rest."""
    reach, heard_s = facts.reach, facts.heard_s
    silent = is_away(heard_s)
    status, why = NodeStatus.READY, ""
    if facts.wanted is NodeState.REMOVED:
        status, why = NodeStatus.REMOVED, say("host.removed")
    elif facts.wanted is NodeState.LOST:
        status, why = NodeStatus.LOST, say("host.lost")
    elif heard_s is None:
        status, why = NodeStatus.JOINING, say("host.unheard_why", why=reach) if reach else say("host.unheard")
    elif silent:
        status, why = NodeStatus.AWAY, say("host.silent", s=f"{heard_s:.0f}")
    elif facts.two_daemons:
        why = say("host.superseded")
        status = NodeStatus.SUPERSEDED
    elif reach is None:
        status, why = NodeStatus.JOINING, NOT_TRIED
    elif reach:
        status, why = NodeStatus.UNREACHABLE, say("host.unreachable", why=reach)
    elif facts.wanted is NodeState.DRAINING:
        status, why = NodeStatus.DRAINING, facts.drained_why
    elif facts.unfit:
        status, why = NodeStatus.UNFIT, facts.unfit
    return Standing(status, why, is_silent=silent or bool(reach) or facts.wanted is NodeState.LOST)


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
    return say("host.nat", why=why, joined_from=joined_from, advertise=advertise)


def _find_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
