"""Opens the console for a command, from the session that `sf login` kept or the environment names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.client.login import find_registry, load_session
from starforge.hardware.profiles import Profile


@contextmanager
def open_console() -> Iterator[Console]:
    """The console that this user is signed in at.

    Raises:
        SignInRequired: nobody is signed in.

    """
    session = load_session()
    with Connection(session.server, session.token) as connection:
        yield Console(connection)


def load_profiles() -> tuple[Mapping[str, Profile], float | None]:
    """The profiles of the last sign-in by name, and how old they are in seconds (None before the first)."""
    registry = find_registry()
    if registry is None:
        return {}, None
    profiles = {str(item["name"]): Profile(**item) for item in registry.profiles}
    return profiles, registry.age_s
