"""Which columns a method needs its data to have, and what the first rows of a file have. What is not sure is not said.

A recipe's option `data_columns` lists alternatives, each with the columns that it needs together. `@name` stands for
the value of that hyperparameter, which names a column; one that is not set asks for nothing.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from starforge.contract.canonical import Json
from starforge.recipes.hyperparameters import resolve
from starforge.recipes.model import Recipe

HEAD_BYTES: Final = 256 << 10
"""So much of a file's beginning is enough to know its columns."""
_OPTION: Final = "data_columns"
_ROWS: Final = 50
_SHOWN: Final = 12
_OWN_WAY: Final = "dataset_kwargs"
"""With this the data is prepared in a way of its own."""
_TOKENS: Final = "_ids"
"""The end of columns that hold tokens: data that is prepared already needs no others."""

Columns: TypeAlias = frozenset[str]


def list_wanted(recipe: Recipe, values: Mapping[str, Json]) -> Sequence[tuple[str, ...]]:
    """The alternatives, each with the columns that it needs; empty where that is not known. Pure."""
    settings, alternatives = resolve(recipe, values), recipe.options.get(_OPTION)
    if not isinstance(alternatives, list) or settings.get(_OWN_WAY):
        return ()
    return [tuple(_fill(names, settings)) for names in alternatives]


def advise(recipe: Recipe) -> str:
    """What to do about data that does not fit. Pure."""
    alternatives = recipe.options.get(_OPTION)
    names = [name for one in alternatives for name in _list_names(one)] if isinstance(alternatives, list) else []
    settings = [name[1:] for name in names if name.startswith("@")]
    return "rename the columns" + (f", or say with {', '.join(settings)} which they are" if settings else "")


def explain_unfit(wanted: Sequence[tuple[str, ...]], found: Columns | None) -> str:
    """Why rows with these columns cannot be trained on, naming both; empty when they can, or nobody knows. Pure."""
    if not wanted or not found or any(name.endswith(_TOKENS) for name in found):
        return ""
    if any(found.issuperset(names) for names in wanted):
        return ""
    listed = sorted(found)
    shown = ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
    return f"its rows have {shown}; wanted are {', or '.join(' and '.join(names) for names in wanted)}"


def find_columns(name: str, head: bytes) -> Columns | None:
    """The columns of the first rows of a JSON Lines, JSON or CSV file, by its name and beginning; None where unsure."""
    ending = PurePosixPath(name).suffix
    try:
        text = head.decode("utf-8-sig", "strict" if len(head) < HEAD_BYTES else "ignore")
        if ending == ".csv":
            return _read_header(text)
        rows = _read_rows(text) if ending in {".jsonl", ".json"} else []
    except (ValueError, csv.Error, RecursionError):
        return None
    return frozenset(key for row in rows for key in row) if rows else None


def _fill(names: Json, settings: Mapping[str, Json]) -> Iterator[str]:
    for name in _list_names(names):
        column = settings.get(name[1:]) if name.startswith("@") else name
        if isinstance(column, str):
            yield column


def _list_names(names: Json) -> list[str]:
    return [str(name) for name in names] if isinstance(names, list) else []


def _read_header(text: str) -> Columns | None:
    first, ended, _ = text.partition("\n")
    cells = next(csv.reader([first]), [])
    return frozenset(cells) if ended and len(cells) > 1 and all(cells) else None


def _read_rows(text: str) -> list[dict[str, Json]]:
    """The first rows of a list, or of one object a line; none where it is neither."""
    decoder, is_list = json.JSONDecoder(), text.lstrip().startswith("[")
    rows: list[dict[str, Json]] = []
    at = text.index("[") + 1 if is_list else 0
    while len(rows) < _ROWS:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            row, end = decoder.raw_decode(text, at)
        except ValueError:
            break  # the end of the list, of the file, or of what was read of it
        # An object over many lines is no row.
        if not isinstance(row, dict) or (not is_list and "\n" in text[at:end]):
            return []
        rows.append(row)
        at = end
    return rows
