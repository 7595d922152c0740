"""Examples of text that a job reports by step: bounded, and what of them is cut is said. Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

ROWS_AT_MOST: Final = 64
COLUMNS_AT_MOST: Final = 16
CHARACTERS_AT_MOST: Final = 8192
NAME_CHARACTERS: Final = 100

Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was reported at one step under a name. `left_out` rows were not kept; `at_byte` tells reports apart."""

    at_byte: int
    name: str
    step: int
    at: float
    rows: tuple[Row, ...]
    left_out: int = 0

    def clean(self, clean: Callable[[str], str]) -> "Sample":
        """The same with every text, names included, as `clean` gives it."""
        rows = tuple(
            {clean(name): clean(cell) if isinstance(cell, str) else cell for name, cell in row.items()}
            for row in self.rows
        )
        return Sample(
            at_byte=self.at_byte,
            name=clean(self.name),
            step=self.step,
            at=self.at,
            rows=rows,
            left_out=self.left_out,
        )


def build_rows(told: Sequence[Mapping[str, Any]]) -> tuple[tuple[Row, ...], int]:
    """At most so many rows of at most so many columns and characters, and how many rows were left out."""
    rows = tuple(
        {_shorten(name, NAME_CHARACTERS): _build_cell(value) for name, value in list(row.items())[:COLUMNS_AT_MOST]}
        for row in told[:ROWS_AT_MOST]
    )
    return rows, max(0, len(told) - ROWS_AT_MOST)


def list_columns(rows: Sequence[Row]) -> list[str]:
    """The columns of the rows, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _build_cell(value: object) -> Cell:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _shorten(text, CHARACTERS_AT_MOST)


def _shorten(text: str, characters: int) -> str:
    text = text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    left = len(text) - characters
    return text if left <= 0 else f"{text[:characters]}… [{left} more characters]"
