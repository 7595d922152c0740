"""Takes an attempt's own token out of what it chose to tell: names of files, keys and notes are read by everybody."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from starforge.contract.ids import AttemptId
from starforge_console.domain.masking import MASK, mask_text
from starforge_console.domain.points import Columns
from starforge_console.ledger.reports import Output, Reports


class Masker:
    """Knows the token of each attempt, which is derived and kept nowhere."""

    def __init__(self, token_of: Callable[[AttemptId], str]) -> None:
        self._token_of = token_of

    def clean(self, attempt: AttemptId, text: str) -> str:
        """The text without the attempt's token."""
        return text.replace(self._token_of(attempt), MASK)

    def clean_reports(self, attempt: AttemptId, reports: Reports) -> Reports:
        """What an attempt tells without its token, and its notes without any."""
        token = self._token_of(attempt)
        told = None if reports.told is None else (reports.told[0], mask_text(reports.told[1], [token]))
        notes = tuple(mask_text(note, [token]) for note in reports.notes)
        return replace(reports, notes=notes, outputs=_clean_outputs(reports.outputs, token), told=told)

    def clean_keys(self, attempt: AttemptId, points: Mapping[str, Columns]) -> Mapping[str, Columns]:
        """Curves by keys without the attempt's token."""
        token = self._token_of(attempt)
        if not any(token in key for key in points):
            return points
        cleaned: dict[str, Columns] = {}
        for key, columns in points.items():
            cleaned.setdefault(key.replace(token, MASK), Columns.empty()).extend(columns)
        return cleaned


def _clean_outputs(outputs: Iterable[Output], token: str) -> tuple[Output, ...]:
    return tuple(replace(output, path=output.path.replace(token, MASK)) for output in outputs)
