"""Reads `nvidia-smi --query-gpu=… --format=csv`: columns by their header, in any order, else by what cells can be."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from starforge.containers.gpu_cards import (
    BUS,
    NO_FACTS,
    UUID,
    Card,
    ErrorCode,
    GpuError,
    Why,
    decide_why,
    has_failed,
    is_lost,
    parse_count,
    says_nothing,
)

_UUID, _INDEX, _NAME, _MEMORY, _BUS, _DRIVER = (
    "uuid",
    "index",
    "name",
    "memory.total",
    "pci.bus_id",
    "driver_version",
)
_OTHER_NAMES: Final = {"gpu_uuid": _UUID, "gpu_name": _NAME, "gpu_bus_id": _BUS, "gpu_index": _INDEX}
_NEEDED: Final = (_INDEX, _UUID, _NAME)
_HEADER_SIGNS: Final = frozenset({_UUID, _INDEX, _NAME, _MEMORY})
_FIELD: Final = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?: \[[^\]]*\])?")

_MIG_UUID: Final = re.compile(r"MIG-", re.IGNORECASE)
_MIB: Final = re.compile(r"([0-9]{1,18})\s*MiB")
_MOST_GPUS: Final = 256
"""A bare number below it, in front of the memory, is an index; one above it is memory."""
_LONGEST_LINE: Final = 16_384
"""Longer than any row: nobody has asked for so many fields."""
_MOST_MEMORY_MIB: Final = 4_000_000
_NO_NAME: Final = re.compile(
    r"(?:P\d+|0x[0-9a-f]+|[\d.]+(?: ?(?:MiB|MHz|W|%|C))?|enabled\*?|disabled\*?|default|exclusive_process|prohibited"
    r"|on|off|yes|no|active|not active|wddm|tcc|mcdm|none|reset|reboot|\[.*\])",
    re.IGNORECASE,
)
_PRODUCT: Final = re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID|TITAN)\b")


@dataclass(slots=True)
class Rows:
    """The lines of one listing as they come; a header line rules those after it."""

    columns: tuple[str, ...] = ()
    """The fields in their order where they are known before any header is met."""
    headed: bool = False
    """Whether a header was met."""
    cards: list[Card] = field(default_factory=list)
    errors: list[GpuError] = field(default_factory=list)
    driver: str = ""

    def take(self, line: str) -> bool:
        """Read `line`; False when it is neither a header nor a GPU."""
        if len(line) > _LONGEST_LINE:
            return False
        between = next((mark for mark in ",;\t" if mark in line), ",")
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=between, skipinitialspace=True), [])]
        header = _read_header(cells)
        if header:
            self.columns, self.headed = header, True
            self._miss([name for name in _NEEDED if name not in header])
            return True
        if any(_MIG_UUID.match(cell) for cell in cells):
            return True  # a part of a GPU is no GPU
        if not self.columns:
            return self._take_nameless(cells)
        if len(cells) > len(self.columns):
            return False
        return self._take_named(dict(zip(self.columns, cells, strict=False)), cells)

    def _take_named(self, facts: Mapping[str, str], cells: Sequence[str]) -> bool:
        if _UUID not in self.columns:
            return len(cells) == len(self.columns)  # that a column is missing has been told
        if parse_count(facts.get(_INDEX, "")) is None and not UUID.fullmatch(facts.get(_UUID, "")):
            return False
        self.driver = facts.get(_DRIVER, self.driver)
        self._add(cells, facts)
        return True

    def _take_nameless(self, cells: Sequence[str]) -> bool:
        if any(UUID.fullmatch(cell) for cell in cells) and len(cells) > 1:
            self._add(cells, _guess_columns(cells))
            return True
        if len(cells) > 1 and parse_count(cells[0]) is not None and has_failed(cells):
            self._add(cells, _guess_columns(cells))
            return True
        if len(cells) > 1 and any(_PRODUCT.match(cell) for cell in cells) and _has_number(cells):
            self._miss([_UUID])
            return True
        return False

    def _miss(self, names: Sequence[str]) -> None:
        if not names:
            return
        message = (
            f"the listing lacks {', '.join(names)}; take nvidia-smi -L,"
            " or --query-gpu=index,uuid,name,memory.total --format=csv"
        )
        error = GpuError(ErrorCode.MISSING_COLUMNS, message)
        if error not in self.errors:
            self.errors.append(error)

    def _add(self, cells: Sequence[str], facts: Mapping[str, str]) -> None:
        named = facts if self.columns else NO_FACTS
        card = _build_card(cells, facts, named)
        if len(cells) < len(self.columns) and card.why is None:
            card = replace(card, why=Why.ERR, detail="its line is cut off")
        self.cards.append(card)
        if is_lost(cells):
            bus = f" at {card.slot}" if card.slot else ""
            message = f"GPU {card.index}{bus} is lost; reboot the machine to get it back"
            self.errors.append(GpuError(ErrorCode.GPU_LOST, message, card.slot))


def _read_header(cells: Sequence[str]) -> tuple[str, ...]:
    matches = [_FIELD.fullmatch(cell) for cell in cells]
    names = tuple(_OTHER_NAMES.get(match[1], match[1]) for match in matches if match)
    return names if len(names) == len(cells) and not _HEADER_SIGNS.isdisjoint(names) else ()


def _guess_columns(cells: Sequence[str]) -> dict[str, str]:
    """What each cell of a row without a header can only be; what is ambiguous is left out."""
    facts = {_UUID: next((cell for cell in cells if UUID.fullmatch(cell)), "")}
    facts[_BUS] = next((cell for cell in cells if BUS.fullmatch(cell)), "")
    facts[_NAME] = next((cell for cell in cells if _can_be_name(cell)), "")
    for cell in cells:
        if _read_memory_mib(cell, least=_MOST_GPUS) is not None:
            facts[_MEMORY] = cell
            break
        count = parse_count(cell)
        if count is not None and count < _MOST_GPUS:
            facts.setdefault(_INDEX, cell)
    return facts


def _can_be_name(cell: str) -> bool:
    if UUID.fullmatch(cell) or BUS.fullmatch(cell) or says_nothing(cell) or _NO_NAME.fullmatch(cell):
        return False
    return any(letter.isalpha() for letter in cell)


def _has_number(cells: Sequence[str]) -> bool:
    return any(parse_count(cell) is not None or _MIB.fullmatch(cell) for cell in cells)


def _read_memory_mib(cell: str, least: int = 0) -> int | None:
    with_unit = _MIB.fullmatch(cell)
    if with_unit:
        return int(with_unit[1])
    count = parse_count(cell)
    return count if count is not None and least <= count <= _MOST_MEMORY_MIB else None


def _build_card(cells: Sequence[str], facts: Mapping[str, str], named: Mapping[str, str]) -> Card:
    told = facts.get(_UUID, "")
    uuid = UUID.fullmatch(told)
    name = facts.get(_NAME, "")
    why, detail = decide_why(name, uuid[0] if uuid else None, cells, named)
    if uuid is None and why is None:
        why, detail = Why.ERR, f"the driver says {told or 'nothing'} where the UUID belongs"
    slot = facts.get(_BUS, "")
    return Card(
        index=parse_count(facts.get(_INDEX, "")),
        uuid=uuid[0] if uuid else None,
        name=name,
        memory_mib=_read_memory_mib(facts.get(_MEMORY, "")),
        slot=slot.lower() if BUS.fullmatch(slot) else "",
        why=why,
        detail=detail,
    )
