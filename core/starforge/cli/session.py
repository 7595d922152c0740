"""Opens the console for a command, from the session that `sf login` kept or the environment names."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from starforge.cli.kept_profiles import load_kept_profiles
from starforge.cli.output import note
from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.client.login import load_session, save_registry
from starforge.errors import Refused, Unavailable
from starforge.hardware.profiles import Profile
from starforge.wording import describe_duration

ConsoleT = TypeVar("ConsoleT", bound=Console)


@contextmanager
def open_console() -> Iterator[Console]:
    """The console that this user is signed in at.

    Raises:
        SignInRequired: nobody is signed in.

    """
    with open_console_as(Console) as console:
        yield console


@contextmanager
def open_console_as(kind: type[ConsoleT]) -> Iterator[ConsoleT]:
    """The same with the calls that `kind` knows. Raises as above."""
    session = load_session()
    with Connection(session.server, session.token) as connection:
        yield kind(connection)


def load_profiles(texts: Sequence[str]) -> Mapping[str, Profile]:
    """The profiles by name, for what `--profile` was given as `texts`.

    What the last sign-in kept is enough while it is fresh and knows every name; else the console is asked, and what it
    kept stands when it cannot be.
    """
    kept = load_kept_profiles()
    if kept.answers(texts):
        return kept.profiles
    try:
        with open_console() as console:
            fetched = [profile.model_dump() for profile in console.profiles().items]
    except (Refused, Unavailable):  # the command that follows says it better, and may need no console
        if kept.age_s is not None:
            note(f"profiles as they were {describe_duration(kept.age_s)} ago: the console was not reached")
        return kept.profiles
    save_registry(fetched)
    return {str(item["name"]): Profile(**item) for item in fetched}
