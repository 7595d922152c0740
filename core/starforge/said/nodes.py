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
    "host.not_of_fleet": "{node} is no machine of fleet {fleet} any more",
    "host.placed_elsewhere": "it is placed elsewhere",
    "host.unknown_for": "no machine is known for {attempt}",
    "host.removed_since": "its machine was removed",
    "host.cleaned_later": "what is left there is removed when it comes back",
    "host.said_nothing": "the daemon said nothing of the attempt",
    "host.silent_at": "{node} does not answer at {address}",
    "host.uncallable": "{node} cannot be called",
    "host.uncallable_why": "its certificate, or this console's key {key}, cannot be used: {why}",
    "host.join_again": "run 'forgelet join' there again",
    "host.other_certificate": (
        "it shows another certificate than the one it joined with: run 'forgelet join' there again"
    ),
    "host.cut": "it cut the connection: it ended in the middle, or it does not trust this console's certificate",
    "host.refused": "connection refused: 'forgelet serve' does not run there, or a firewall rejects the port",
    "host.no_route": "no route: the address is of no network that this console reaches, or a firewall forbids it",
    "host.timed_out": "timed out: a firewall drops the packets, or the machine is off",
    "host.late": "it took the call and gave no answer in time",
    "host.unreadable": "the daemon's answer cannot be read",
    "host.log_unreadable": "the daemon's log cannot be read",
    "host.foreign": "held by containers of another install ({install})",
}
"""By code."""
