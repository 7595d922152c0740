"""Reads the table that a bare `nvidia-smi` draws. It shows no UUID and cuts long names: good for support alone."""

import re
from typing import Final

from starforge.containers.gpu_cards import Card, Why, decide_why, parse_count

_FIRST: Final = re.compile(
    r"\|\s*(?P<index>[0-9]{1,4})\s+(?P<name>\S.*?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*"
    r"\|\s*(?P<slot>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|N/A|ERR!)\s*(?:On|Off|N/A|ERR!)?\s*"
    r"\|\s*(?P<ecc>[^|]*?)\s*\|"
)
_MEMORY: Final = re.compile(r"/\s*([0-9]{1,18})\s*MiB")
_MIG_CELL: Final = re.compile(r"\|\s*Enabled\*?\s*\|\s*$")
_ROWS_A_CARD: Final = 3


def read_table(lines: list[str]) -> tuple[list[Card], set[int]]:
    """The GPUs of a table somewhere in `lines`, and which lines it takes."""
    cards: list[Card] = []
    taken: set[int] = set()
    for number, line in enumerate(lines):
        first = _FIRST.match(line.strip())
        if first is None:
            continue
        block = _take_block(lines, number)
        cards.append(_build_card(first, block))
        taken.update(range(number, number + len(block)))
    return cards, taken


def _take_block(lines: list[str], start: int) -> list[str]:
    """The rows of one card: to the border, three at most."""
    block = [lines[start].strip()]
    for line in lines[start + 1 : start + _ROWS_A_CARD]:
        stripped = line.strip()
        if not stripped.startswith("|") or _FIRST.match(stripped):
            break
        block.append(stripped)
    return block


def _build_card(first: re.Match[str], block: list[str]) -> Card:
    name = first["name"]
    why, detail = decide_why(name, None, block)
    if why is None and len(block) == _ROWS_A_CARD and _MIG_CELL.search(block[-1]):
        why, detail = Why.MIG_ENABLED, "it is cut into MIG parts"
    if why is None and parse_count(first["ecc"]):
        why, detail = Why.QUARANTINED, f"{first['ecc']} uncorrected memory errors since the driver was loaded"
    memory = next((match for row in block[1:] if (match := _MEMORY.search(row))), None)
    return Card(
        index=int(first["index"]),
        uuid=None,
        name=name,
        memory_mib=int(memory[1]) if memory else None,
        slot=first["slot"].lower() if first["slot"][0] not in "NE" else "",
        why=why,
        detail=detail,
    )
