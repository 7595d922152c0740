"""What Slurm's numbers mean when it does not take a submission: one table, pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starforge.errors import LaunchRefused, NoCapacity, StarForgeError
from starforge_console.executors.slurm.native import Complaint
from starforge_console.executors.slurm.replies import TOKEN_REFUSED, explain_complaints, join_words

_CONTROLLERS_OWN: Final = range(2000, 3000)
"""Numbers with which the controller itself says no: nothing was queued. Any other leaves that open."""

_ASK_ADMINISTRATOR: Final = "ask an administrator to mend the fleet's settings: the job asks for none of this"


def _refuse(why: str, next_step: str) -> Callable[[str], StarForgeError]:
    return lambda words: LaunchRefused(f"Slurm refuses the job: {words}", why=why, next_step=next_step)


def _wait(why: str) -> Callable[[str], StarForgeError]:
    return lambda words: NoCapacity(f"Slurm takes no job now: {words}", why=why)


REFUSALS: Final[Mapping[int, Callable[[str], StarForgeError]]] = {
    1804: _wait("the controller limits how often it is called"),
    2000: _refuse("the fleet's partition does not exist in the cluster", _ASK_ADMINISTRATOR),
    2001: _refuse("the cluster has no default partition and the fleet names none", _ASK_ADMINISTRATOR),
    2014: _refuse("no node of the partition can ever give what is asked for", "ask for less per node"),
    2015: _refuse("the partition does not allow a job of that kind", "ask for less, or for another fleet"),
    2016: _wait("the nodes that fit are taken"),
    2029: _refuse("the fleet's constraint names a feature that no node has", _ASK_ADMINISTRATOR),
    2045: _refuse("the fleet's account may not use its partition", _ASK_ADMINISTRATOR),
    2050: _wait("a limit of the account or the QOS is reached"),
    2066: _refuse("the fleet's QOS is unknown, or not for its account", _ASK_ADMINISTRATOR),
    2070: _wait("the partition is drained or inactive"),
}
"""By Slurm's number."""


NEVER_STARTS: Final = frozenset(
    {
        "AccountNotAllowed",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "QOSNotAllowed",
        "QOSTimeLimit",
        "ReservationDeleted",
    }
)
"""Slurm's reasons for a job that waits for what never comes; others pass: a partition may be drained just now."""


def explain_waiting(reason: str, complaints: Sequence[Complaint]) -> StarForgeError:
    """What to raise for a job that was queued with complaints, once it is out of the queue again."""
    words = join_words(complaints)
    if reason in NEVER_STARTS:
        return LaunchRefused(
            f"Slurm would never start the job: {reason} ({words})",
            why="the fleet's partition does not allow it",
            next_step="ask for less, or for another fleet",
        )
    return NoCapacity(f"Slurm would not start the job now: {reason or 'no reason told'} ({words})")


def explain_refusal(complaints: Sequence[Complaint], status: int = 500) -> StarForgeError:
    """What to raise for a submission of which nothing was queued.

    LaunchRefused and NoCapacity where the controller said no; else it is not known what happened.
    """
    words = join_words(complaints)
    for complaint in complaints:
        if complaint.number in REFUSALS:
            return REFUSALS[complaint.number](words)
    if any(one.number in _CONTROLLERS_OWN and one.number not in TOKEN_REFUSED for one in complaints):
        return LaunchRefused(f"Slurm refuses the job: {words}", next_step="look the words up in Slurm's documentation")
    return explain_complaints(status, complaints)
