"""Takes an attempt's own secrets out of what it chose to tell: names of files, keys and notes are read by everybody."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from starforge.contract.ids import AttemptId
from starforge_console.domain.masking import Words, mask_text
from starforge_console.domain.points import Columns
from starforge_console.ledger.reports import Output, Reports

_READY: Final = 64
"""The masks of so many attempts are ready; those of others are made anew."""


@dataclass(frozen=True, slots=True, repr=False)
class Mask:
    """What must not be seen of one attempt."""

    words: Words

    @property
    def longest_bytes(self) -> int:
        """The length of the longest word, in UTF-8, or more."""
        return self.words.longest_bytes

    def clean(self, text: str) -> str:
        """The text without them."""
        return self.words.hide(text)

    def clean_reports(self, reports: Reports) -> Reports:
        """What an attempt tells without them, and its notes without anybody's tokens."""
        told = None if reports.told is None else (reports.told[0], mask_text(reports.told[1], self.words))
        notes = tuple(mask_text(note, self.words) for note in reports.notes)
        return replace(reports, notes=notes, outputs=self._clean_outputs(reports.outputs), told=told)

    def clean_keys(self, points: Mapping[str, Columns]) -> Mapping[str, Columns]:
        """Curves by keys without them."""
        shown = {key: self.clean(key) for key in points}
        if all(key == clean for key, clean in shown.items()):
            return points
        cleaned: dict[str, Columns] = {}
        for key, columns in points.items():
            cleaned.setdefault(shown[key], Columns.empty()).extend(columns)
        return cleaned

    def _clean_outputs(self, outputs: Iterable[Output]) -> tuple[Output, ...]:
        return tuple(replace(output, path=self.clean(output.path)) for output in outputs)


class Masker:
    """Knows the mask of each attempt."""

    def __init__(self, find_words: Callable[[AttemptId], Awaitable[Sequence[str]]]) -> None:
        """`find_words` gives the attempt's token, and the secrets that it was given."""
        self._find_words = find_words
        self._ready: OrderedDict[AttemptId, tuple[Sequence[str], Mask]] = OrderedDict()

    async def of(self, attempt: AttemptId) -> Mask:
        """The attempt's mask."""
        words = await self._find_words(attempt)
        known, mask = self._ready.get(attempt, (None, None))
        if mask is None or known != words:
            mask = Mask(Words(words))
            self._ready[attempt] = words, mask
            while len(self._ready) > _READY:
                self._ready.popitem(last=False)
        self._ready.move_to_end(attempt)
        return mask
