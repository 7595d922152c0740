"""What a terminal's colour sequences do to a style: a few names, whatever shade was asked for."""

import re
from typing import Final

_PARAMETERS: Final = re.compile(r"[0-9;:]*")
_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_MARKS: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse"}
_UNMARKS: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",)}
SGR_CODES: Final = {
    **{mark: code for code, mark in _MARKS.items()},
    **{colour: 30 + index for index, colour in enumerate(_COLOURS)},
    **{f"bright-{colour}": 90 + index for index, colour in enumerate(_COLOURS)},
}
STYLES: Final = frozenset(SGR_CODES)
"""The names that a span's style may hold."""
_LEVELS: Final = (0, 95, 135, 175, 215, 255)
_EIGHT_BIT, _TRUE = 5, 2


def change_style(style: tuple[str, ...], parameters: str) -> tuple[str, ...]:
    """The style after a sequence that selects one; what is not known of it changes nothing."""
    if not _PARAMETERS.fullmatch(parameters):
        return style
    names = list(style)
    codes = [int(code or 0) for code in parameters.replace(":", ";").split(";") if len(code) <= 3]  # noqa: PLR2004 - digits of a code
    at = 0
    while at < len(codes):
        code = codes[at]
        at += 1
        if code in (38, 48):
            colour, at = _find_colour(codes, at)
            if code == 38 and colour:  # noqa: PLR2004 - 48 is the ground, which is not shown
                names = [name for name in names if name in _MARKS.values()] + [colour]
            continue
        names = _apply_code(names, code)
    return tuple(sorted(names))


def _apply_code(names: list[str], code: int) -> list[str]:
    if code == 0:
        return []
    if code in _MARKS:
        return names if _MARKS[code] in names else [*names, _MARKS[code]]
    if code in _UNMARKS:
        return [name for name in names if name not in _UNMARKS[code]]
    marks = [name for name in names if name in _MARKS.values()]
    if 30 <= code <= 37:  # noqa: PLR2004 - the eight colours
        return [*marks, _COLOURS[code - 30]]
    if 90 <= code <= 97:  # noqa: PLR2004 - and the same, brighter
        return [*marks, f"bright-{_COLOURS[code - 90]}"]
    return marks if code == 39 else names  # noqa: PLR2004 - the usual colour


def _find_colour(codes: list[int], at: int) -> tuple[str | None, int]:
    """The name that is nearest to the colour whose kind is at `at`, and where the next code stands."""
    kind = codes[at] if at < len(codes) else None
    if kind == _EIGHT_BIT and at + 1 < len(codes):
        return _name_eight_bit(codes[at + 1]), at + 2
    if kind == _TRUE and at + 3 < len(codes):
        return _name_rgb(codes[at + 1], codes[at + 2], codes[at + 3]), at + 4
    return None, len(codes)


def _name_eight_bit(index: int) -> str | None:
    if index < 16:  # noqa: PLR2004 - the named ones
        return _COLOURS[index] if index < len(_COLOURS) else f"bright-{_COLOURS[index - 8]}"
    if index < 232:  # noqa: PLR2004 - a cube of six levels a side
        index -= 16
        return _name_rgb(_LEVELS[index // 36], _LEVELS[index // 6 % 6], _LEVELS[index % 6])
    return _name_rgb(*(3 * [8 + (index - 232) * 10])) if index < 256 else None  # noqa: PLR2004 - greys


def _name_rgb(red: int, green: int, blue: int) -> str:
    most = max(red, green, blue)
    if most < 64:  # noqa: PLR2004 - almost nothing of any
        return "black"
    bits = sum(1 << bit for bit, part in enumerate((red, green, blue)) if part * 2 > most)
    if bits == 7 and most < 160:  # noqa: PLR2004 - a grey
        return "bright-black"
    return _COLOURS[bits]
