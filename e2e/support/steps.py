"""The steps of a page for administrators, to be followed to the letter."""

import re
from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).parents[2] / "docs" / "en" / "ops"
_MARK: Final = re.compile(r"<!-- steps: ([\w-]+) -->\n+```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)


def load_steps(page: str, name: str) -> list[str]:
    """What stands in the fences that are marked with `name`, in order.

    Raises:
        LookupError: there is none.

    """
    steps = [code for marked, code in list_steps(PAGES / page) if marked == name]
    if not steps:
        raise LookupError(f"{page} marks no steps {name}")
    return steps


def list_steps(page: Path) -> list[tuple[str, str]]:
    """Every marked fence of a page: its name, and what stands in it."""
    return _MARK.findall(page.read_text(encoding="utf-8"))
