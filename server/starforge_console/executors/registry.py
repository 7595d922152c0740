"""Fleet kinds and the modules that serve them; a module is imported when its kind is first asked for."""

from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from starforge.errors import ProjectError

EXECUTORS: Final = MappingProxyType(
    {
        "fake": "starforge_console.executors.fake:FakeExecutor",
        "local": "starforge_console.executors.local:LocalExecutor",
    }
)
"""Kind -> `module:class`. A new kind is one line here and one folder or file beside this one."""


def load_executor_class(kind: str) -> Any:  # noqa: ANN401 - each kind has a constructor of its own
    """The class that serves fleets of `kind`. Raises ProjectError for a kind that is not known."""
    path = EXECUTORS.get(kind)
    if path is None:
        raise ProjectError(
            f"{kind!r} is no kind of fleet",
            why=f"known kinds: {', '.join(sorted(EXECUTORS))}",
            next_step="mend the fleet's kind",
        )
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
