"""Why a machine, or a fleet, takes no jobs now."""

from typing import Final

NODES: Final = {
    "host.removed": "removed from the fleet",
    "host.lost": "marked lost: its attempts run elsewhere",
    "host.unheard": "no heartbeat was heard since the console started",
    "host.unheard_why": "no heartbeat was heard since the console started; {why}",
    "host.silent": "no heartbeat for {s} s",
    "host.superseded": ("two daemons with one identity: end one, then run 'forgelet join' on the machine that stays"),
    "host.not_tried": "the console has not called it yet",
    "host.unreachable": "unreachable from console: {why}",
    "host.nat": (
        "{why}; it joined from {joined_from} and advertises {advertise}: NAT? Forward a port to it and join again"
        " with --advertise HOST:PORT"
    ),
    "host.draining": "draining: it takes no new jobs",
    "host.draining_why": "draining: it takes no new jobs ({why})",
    "host.told_nothing": "it has told nothing yet",
    "host.fleet_told_nothing": "{nodes} has told nothing yet",
    "host.versions": "its forgelet {version} and this console {own} do not understand each other: upgrade",
    "host.to_clean_up": "it was marked lost and still has to clean up for that",
    "host.engine_silent": "its engine does not answer",
    "host.takes_none": "it takes no jobs now",
    "host.no_signal": "its machine does not answer",
    "host.no_answer": "no answer within {s} s",
    "host.fleet_silent": "no machine of fleet {fleet} answers",
    "host.unknown_for_it": "no machine is known for it",
    "host.marked_lost": "{node} was marked lost",
    "host.foreign": "held by containers of another install ({install})",
}
"""By code."""
