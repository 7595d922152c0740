"""What lies beside each part of a recipe: the same content, made for reading fast."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from starforge.recipes.catalog import list_parts, render_compiled

_ROOT: Final = Path(__file__).parents[2]
_BUILTIN: Final = "core/starforge/recipes/builtin"


def build_pages() -> Mapping[str, Callable[[], str]]:
    """The compiled file of every part by its path below the repository's root."""
    parts = (part.with_suffix(".json") for part in list_parts(_ROOT / _BUILTIN))
    return {
        compiled.relative_to(_ROOT).as_posix(): partial(render_compiled, compiled.with_suffix(".yaml"))
        for compiled in parts
    }
