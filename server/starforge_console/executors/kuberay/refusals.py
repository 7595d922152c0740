"""What the API server's no to a manifest means for an attempt: one table, pure."""

from http import HTTPStatus
from typing import Final

from starforge.errors import LaunchRefused, NoCapacity, StarForgeError
from starforge.said.sentence import say
from starforge_console.executors.kuberay.replies import KubeRefused

_QUOTA: Final = "exceeded quota"


def explain_refusal(refused: KubeRefused, name: str) -> StarForgeError:
    """What to raise for an object `name` that was not taken: nothing of it is there."""
    words = refused.words or refused.reason or f"HTTP {refused.status}"
    said = say("kuberay.refuses", words=words)
    match refused.status:
        case HTTPStatus.FORBIDDEN if _QUOTA in words:
            return NoCapacity(say("kuberay.takes_none", words=words), why=say("kuberay.quota"))
        case HTTPStatus.FORBIDDEN:
            return LaunchRefused(said, why=say("kuberay.forbidden"), next_step=say("kuberay.check"))
        case HTTPStatus.NOT_FOUND:
            return LaunchRefused(said, why=say("kuberay.not_installed"), next_step=say("kuberay.check"))
        case HTTPStatus.CONFLICT:
            return explain_taken(name, words)
        case _:
            return LaunchRefused(said, why=say("kuberay.not_fitting"), next_step=say("kuberay.ask_administrator"))


def explain_taken(name: str, words: str = "") -> StarForgeError:
    """What to raise where the name is another's."""
    return LaunchRefused(
        say("kuberay.taken_why", name=name, words=words) if words else say("kuberay.taken", name=name),
        why=say("kuberay.taken_by"),
        next_step=say("kuberay.taken_next"),
    )
