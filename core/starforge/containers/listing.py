"""List one engine's containers as they are, also where its listing has fallen behind.

The engine lists from a copy that follows a container only when the container's file could be written. One that ended
while the disk was full stays listed as running until the engine starts anew. To inspect is to ask the container itself.
"""

import time
from typing import Final

from starforge.containers.engine import Document, Engine, EngineError
from starforge.containers.labels import ENDED
from starforge.errors import BackendUnreachable

EACH_S: Final = 0.5
"""How long one container is asked: the engine answers only when it has done what it is doing with it."""

ALL_S: Final = 2.0
"""The same for all of one listing: some that hang must not hold up what is told of the others."""

_NOT_FOUND: Final = 404


def load_listing(engine: Engine, *labels: str) -> list[Document]:
    """Every container that carries all of `labels`, ended ones too, each with its present `State`.

    One that does not tell it in time keeps the listed state: what is not known to have ended holds what it names.
    Raises BackendUnreachable and EngineError when nothing can be listed.
    """
    listing = engine.list_containers(*labels)
    deadline = time.monotonic() + ALL_S
    looked = (_look_closer(engine, listed, deadline) for listed in listing)
    return [listed for listed in looked if listed is not None]


def _look_closer(engine: Engine, listed: Document, deadline: float) -> Document | None:
    """`listed` with the state that the container itself tells; None when it was removed meanwhile."""
    left_s = min(EACH_S, deadline - time.monotonic())
    if listed.get("State") in ENDED or left_s <= 0:
        return listed
    try:
        state: Document = engine.inspect(str(listed["Id"]), left_s)["State"]
    except BackendUnreachable:
        return listed
    except EngineError as error:
        return None if error.status == _NOT_FOUND else listed
    return {**listed, "State": state.get("Status") or listed["State"]}
