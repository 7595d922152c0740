"""What Slurm's numbers mean when it does not take a submission: one table, pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starforge.errors import LaunchRefused, NoCapacity, StarForgeError
from starforge.said.sentence import say
from starforge_console.executors.slurm.native import Complaint
from starforge_console.executors.slurm.replies import TOKEN_REFUSED, explain_complaints, join_words

_CONTROLLERS_OWN: Final = range(2000, 3000)
"""Numbers with which the controller itself says no: nothing was queued. Any other leaves that open."""

_ASK_ADMINISTRATOR: Final = say("slurm.ask_administrator")
_LESS: Final = say("slurm.less_or_elsewhere")


def _refuse(why: str, next_step: str) -> Callable[[str], StarForgeError]:
    return lambda words: LaunchRefused(say("slurm.refused", words=words), why=why, next_step=next_step)


def _wait(why: str) -> Callable[[str], StarForgeError]:
    return lambda words: NoCapacity(say("slurm.takes_none", words=words), why=why)


REFUSALS: Final[Mapping[int, Callable[[str], StarForgeError]]] = {
    1804: _wait(say("slurm.calls_limited")),
    2000: _refuse(say("slurm.partition_gone"), _ASK_ADMINISTRATOR),
    2001: _refuse(say("slurm.no_default"), _ASK_ADMINISTRATOR),
    2014: _refuse(say("slurm.too_much"), say("slurm.too_much_next")),
    2015: _refuse(say("slurm.kind_forbidden"), _LESS),
    2016: _wait(say("slurm.nodes_taken")),
    2029: _refuse(say("slurm.no_feature"), _ASK_ADMINISTRATOR),
    2045: _refuse(say("slurm.account_forbidden"), _ASK_ADMINISTRATOR),
    2050: _wait(say("slurm.limit_reached")),
    2066: _refuse(say("slurm.no_qos"), _ASK_ADMINISTRATOR),
    2070: _wait(say("slurm.partition_drained")),
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
            say("slurm.never_starts", reason=reason, words=words),
            why=say("slurm.never_starts_why"),
            next_step=_LESS,
        )
    return NoCapacity(say("slurm.not_now", reason=reason or say("slurm.no_reason"), words=words))


def explain_refusal(complaints: Sequence[Complaint], status: int = 500) -> StarForgeError:
    """What to raise for a submission of which nothing was queued.

    LaunchRefused and NoCapacity where the controller said no; else it is not known what happened.
    """
    words = join_words(complaints)
    for complaint in complaints:
        if complaint.number in REFUSALS:
            return REFUSALS[complaint.number](words)
    if any(one.number in _CONTROLLERS_OWN and one.number not in TOKEN_REFUSED for one in complaints):
        return LaunchRefused(say("slurm.refused", words=words), next_step=say("slurm.refused_next"))
    return explain_complaints(status, complaints)
