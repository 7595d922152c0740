"""A curve as text: a small plot of braille dots with its axes."""

import math
from collections.abc import Sequence
from typing import Final

_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_ROWS_A_CELL: Final = 4
_COLUMNS_A_CELL: Final = 2
_MIN_WIDTH: Final = 24
_EMPTY: Final = 0x2800


def draw_curve(steps: Sequence[float], values: Sequence[float], *, title: str, width: int, height: int = 8) -> str:
    """The curve through (`steps`, `values`) as `height` lines of dots with a title above and the steps below.

    No line is longer than `width` columns (24 at least). Values that are not finite leave a gap and are told of
    in the title, which names the last value whatever it is. A curve with no finite value says so.
    """
    width = max(width, _MIN_WIDTH)
    points = [(step, value) for step, value in zip(steps, values, strict=True) if math.isfinite(value)]
    missing = len(points) < len(values)
    if not points:
        return f"{title}: no finite value"[:width]
    low, high = min(value for _, value in points), max(value for _, value in points)
    labels = (render_number(high), render_number(low))
    margin = max(map(len, labels))
    columns = width - margin - 2
    cells = _plot(points, columns, height)
    last = f"{title}  last {render_number(values[-1])} at step {render_number(steps[-1])}"
    lines = [(last + ("; nan and inf are not drawn" if missing else ""))[:width]]
    for index, row in enumerate(cells):
        label = {0: labels[0], height - 1: labels[1]}.get(index, "")
        lines.append(f"{label:>{margin}} ┤{''.join(chr(_EMPTY + cell) for cell in row)}")
    first_step, last_step = render_number(points[0][0]), render_number(points[-1][0])
    gap = max(1, columns - len(first_step) - len(last_step))
    lines.append(" " * (margin + 2) + first_step + " " * gap + last_step)
    return "\n".join(line.rstrip() for line in lines)


def render_number(value: float | str | None) -> str:
    """A value in a few digits; `nan`, `inf` and `-inf` by their names, a dash where there is none."""
    return "-" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def _plot(points: Sequence[tuple[float, float]], columns: int, height: int) -> list[list[int]]:
    cells = [[0] * columns for _ in range(height)]
    across, down = columns * _COLUMNS_A_CELL - 1, height * _ROWS_A_CELL - 1
    steps = min(step for step, _ in points), max(step for step, _ in points)
    values = min(value for _, value in points), max(value for _, value in points)
    previous: tuple[int, int] | None = None
    for step, value in points:
        x, y = _place(step, steps, across), down - _place(value, values, down)
        for dot_x, dot_y in _connect(previous or (x, y), (x, y)):
            row, column = dot_y // _ROWS_A_CELL, dot_x // _COLUMNS_A_CELL
            cells[row][column] |= _DOTS[dot_y % _ROWS_A_CELL][dot_x % _COLUMNS_A_CELL]
        previous = (x, y)
    return cells


def _place(value: float, bounds: tuple[float, float], size: int) -> int:
    """Where `value` lies between the bounds, on dots 0 to `size`; the middle when the bounds are one."""
    low, high = bounds
    if high == low:
        return size // 2
    # Halved first: the distance of two large values of either sign may be infinite.
    return round((value / 2 - low / 2) / (high / 2 - low / 2) * size)


def _connect(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    length = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (round(start[0] + (end[0] - start[0]) * i / length), round(start[1] + (end[1] - start[1]) * i / length))
        for i in range(length + 1)
    ]
