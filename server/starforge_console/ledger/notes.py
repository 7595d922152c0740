"""Sentences in the ledger: the text in `note`, and its code and values as JSON in `note_said` beside it."""

from typing import Any

from sqlalchemy import RowMapping

from starforge.said.sentence import read_said, write_said


def write_note(note: str) -> dict[str, str | None]:
    """The columns that keep `note`."""
    return {"note": str(note), "note_said": write_said(note)}


def read_note(row: RowMapping) -> dict[str, Any]:
    """The columns of a row with the sentence under `note`, in place of what the ledger keeps of it."""
    values: dict[str, Any] = {str(name): value for name, value in row.items()}
    values["note"] = read_said(values["note"], values.pop("note_said"))
    return values
