"""Opens the console for a command, from the session that `sf login` kept or the environment names."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from starforge.cli.output import note
from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.client.login import find_registry, load_session, save_registry
from starforge.errors import Refused, Unavailable
from starforge.hardware.profiles import BUILT_IN, Profile, name_wanted
from starforge.wording import describe_duration

_FRESH_S: Final = 86_400.0


@contextmanager
def open_console() -> Iterator[Console]:
    """The console that this user is signed in at.

    Raises:
        SignInRequired: nobody is signed in.

    """
    session = load_session()
    with Connection(session.server, session.token) as connection:
        yield Console(connection)


def load_profiles(texts: Sequence[str]) -> Mapping[str, Profile]:
    """The profiles by name, for what `--profile` was given as `texts`.

    What the last sign-in kept is enough while it is fresh and knows every name; else the console is asked, and what it
    kept stands when it cannot be.
    """
    registry = find_registry()
    kept = {} if registry is None else {str(item["name"]): Profile(**item) for item in registry.profiles}
    wanted = {name_wanted(text) for text in texts}
    if registry is not None and registry.age_s < _FRESH_S and wanted <= {*kept, *BUILT_IN}:
        return kept
    try:
        with open_console() as console:
            fetched = [profile.model_dump() for profile in console.profiles().items]
    except (Refused, Unavailable):  # the command that follows says it better, and may need no console
        if registry is not None:
            note(f"profiles as they were {describe_duration(registry.age_s)} ago: the console was not reached")
        return kept
    save_registry(fetched)
    return {str(item["name"]): Profile(**item) for item in fetched}
