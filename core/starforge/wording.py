"""Words that messages are put together from: counts with their nouns, sentences in a row, the nearest known name."""

from collections.abc import Iterable


def count_of(count: int, noun: str) -> str:
    """`1 fault`, `2 faults`: a count with its noun, whose plural takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def join_sentences(*parts: str) -> str:
    """The parts that say something, one after the other, each but the last with its full stop or question mark."""
    said = [part for part in parts if part]
    ended = [part if part.endswith((".", "?", "!")) else f"{part}." for part in said[:-1]]
    return " ".join([*ended, *said[-1:]])


def describe_nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest of the known names, otherwise the list of them."""
    import difflib  # noqa: PLC0415 - only who made a mistake pays for it

    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known here: {', '.join(names)}" if names else ""
