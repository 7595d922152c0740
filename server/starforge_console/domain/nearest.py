"""What somebody may have meant who wrote a name that is not known here."""

from collections.abc import Iterable

from starforge.said.sentence import say, say_list
from starforge.wording import find_nearest


def say_nearest(word: str, known: Iterable[str]) -> str:
    """`starforge.wording.describe_nearest` as a sentence that pages can translate; empty where nothing is known."""
    found = find_nearest(word, known)
    if found.meant is not None:
        return say("nearest.meant", name=repr(found.meant))
    if not found.names:
        return ""
    names = say_list("list.comma", found.names)
    if len(found.names) == found.known:
        return say("nearest.known", names=names)
    return say("nearest.some", n=found.known, names=names)
