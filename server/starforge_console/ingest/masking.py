"""Takes an attempt's own secrets out of what it chose to tell: names of files, keys and notes are read by everybody."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from starforge.contract.ids import AttemptId
from starforge_console.domain.masking import MASK, mask_text
from starforge_console.domain.points import Columns
from starforge_console.ledger.reports import Output, Reports


@dataclass(frozen=True, slots=True, repr=False)
class Mask:
    """What must not be seen of one attempt, the longest first: one word may be the beginning of another."""

    words: tuple[str, ...]

    @property
    def longest_bytes(self) -> int:
        """The length of the longest word, in UTF-8."""
        return max((len(word.encode()) for word in self.words), default=0)

    def clean(self, text: str) -> str:
        """The text without them."""
        for word in self.words:
            text = text.replace(word, MASK)
        return text

    def clean_reports(self, reports: Reports) -> Reports:
        """What an attempt tells without them, and its notes without anybody's tokens."""
        told = None if reports.told is None else (reports.told[0], mask_text(reports.told[1], self.words))
        notes = tuple(mask_text(note, self.words) for note in reports.notes)
        return replace(reports, notes=notes, outputs=self._clean_outputs(reports.outputs), told=told)

    def clean_keys(self, points: Mapping[str, Columns]) -> Mapping[str, Columns]:
        """Curves by keys without them."""
        if not any(word in key for key in points for word in self.words):
            return points
        cleaned: dict[str, Columns] = {}
        for key, columns in points.items():
            cleaned.setdefault(self.clean(key), Columns.empty()).extend(columns)
        return cleaned

    def _clean_outputs(self, outputs: Iterable[Output]) -> tuple[Output, ...]:
        return tuple(replace(output, path=self.clean(output.path)) for output in outputs)


class Masker:
    """Knows the mask of each attempt."""

    def __init__(self, find_words: Callable[[AttemptId], Awaitable[Sequence[str]]]) -> None:
        """`find_words` gives the attempt's token, and the secrets that it was given."""
        self._find_words = find_words

    async def of(self, attempt: AttemptId) -> Mask:
        """The attempt's mask."""
        words = await self._find_words(attempt)
        return Mask(tuple(sorted(filter(None, words), key=len, reverse=True)))
