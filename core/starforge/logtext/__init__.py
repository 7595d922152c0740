"""What others wrote, raw log bytes and texts, as text that is safe to show on a terminal and on a page.

Here are texts: control characters become visible signs, and what reorders, hides or is no text the replacement
character. `records` cuts the bytes of a log into its lines, `render` makes one line of a log fit to be shown, `levels`
says what it speaks of, `reading` does all of it for a log that comes in pieces.
"""

from typing import Final

RESET: Final = "\x1b[0m"
"""What ends every colour."""

_KEPT: Final = {"\n", "\t", "\r"}
_VISIBLE: Final = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT} | {0x7F: "\u2421"}
_HIDDEN: Final = dict.fromkeys(
    [*range(0x80, 0xA0), 0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)
_TEXT_SIGNS: Final = {
    **_VISIBLE,
    **_HIDDEN,
    ord("\r"): "\u240d",
    **dict.fromkeys([0x2028, 0x2029, *range(0xD800, 0xE000)], "\ufffd"),
}
_LINE_SIGNS: Final = _TEXT_SIGNS | {ord("\n"): "\u240a", ord("\t"): "\u2409"}


def clean(text: str) -> str:
    """A text that somebody else wrote, as it may be shown: line ends and tabs stay, nothing else moves a cursor."""
    return text.translate(_TEXT_SIGNS)


def clean_line(text: str) -> str:
    """`clean`, and line ends and tabs too become visible signs: a name or a path stays one line."""
    return text.translate(_LINE_SIGNS)
