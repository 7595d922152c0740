"""Reads whatever `nvidia-smi` printed: `-L`, `--query-gpu` as CSV, its table, its sentences, with any noise around.

An unreadable line never spoils the others. Cards are known by UUID; a listing that contradicts itself shows none.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starforge.containers.gpu_cards import (
    UUID,
    Card,
    ErrorCode,
    GpuError,
    Listing,
    Why,
    decide_why,
)
from starforge.containers.gpu_rows import Rows
from starforge.containers.gpu_sentences import NO_ROW, TIMED_OUT, find_errors, has_timed_out, is_sentence
from starforge.containers.gpu_table import read_table

# A name goes on to the next "(UUID:", but never past the beginning of the next GPU: line ends may be lost on the way.
_ENTRY: Final = re.compile(
    r"\bGPU (?P<index>[0-9]{1,4}):\s*(?P<name>(?:(?!\bGPU \d+:|\bMIG \S+\s+Device)[^\n])*?)\s*"
    r"\(UUID:\s*(?P<uuid>[^)\n]*?)\s*(?:\)|$)"
    r"|\bMIG (?P<part>\S+)\s+Device\s+\d+:\s*\(UUID:[^)\n]*(?:\)|$)",
    re.MULTILINE,
)
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SHOWN: Final = 200
"""So much of a line that nobody could read is told."""
_BORDER: Final = re.compile(r"[+|=\-\s]*")


def decode_listing(content: bytes) -> str:
    """`content` as text: UTF-8, or UTF-16 where a mark says so, as some shells write files."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", errors="replace")
    return content.decode("utf-8-sig", errors="replace")


def read_capture(text: str, columns: Sequence[str] = ()) -> Listing:
    """Every GPU and every error that `text` tells of. Pure.

    `columns` are the fields that were asked for, in their order, in case no header names them.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    listed, rest = _take_entries(text)
    lines = rest.split("\n")
    drawn, taken = read_table(lines)
    rows = Rows(tuple(columns))
    unread = [
        line.strip()[:_SHOWN] for number, line in enumerate(lines) if number not in taken and not _is_read(line, rows)
    ]
    cards, conflicts = _merge([*listed, *rows.cards], drawn)
    errors = [*find_errors(rest), *rows.errors, *conflicts]
    if not cards and not errors and (rows.headed or has_timed_out(text)):
        errors = [NO_ROW if rows.headed else TIMED_OUT]
    return Listing(tuple(cards), tuple(errors), tuple(unread), rows.driver)


def _take_entries(text: str) -> tuple[list[Card], str]:
    """The GPUs of `nvidia-smi -L`, and the text without them. A part belongs to the GPU before it."""
    cards: list[Card] = []
    for match in _ENTRY.finditer(text):
        if match["index"] is not None:
            cards.append(_build_listed(match))
        elif cards and cards[-1].why is None:
            cards[-1] = replace(cards[-1], why=Why.MIG_ENABLED, detail="it is cut into MIG parts")
    return cards, _ENTRY.sub(" ", text)


def _build_listed(match: re.Match[str]) -> Card:
    uuid = UUID.fullmatch(match["uuid"])
    name = " ".join(match["name"].split())
    why, detail = decide_why(name, uuid[0] if uuid else None, [name, match["uuid"]])
    if uuid is None and why is None:
        why, detail = Why.ERR, f"the driver says {match['uuid'] or 'nothing'} where the UUID belongs"
    return Card(index=int(match["index"]), uuid=uuid[0] if uuid else None, name=name, why=why, detail=detail)


def _is_read(line: str, rows: Rows) -> bool:
    """Whether `line` says something that is understood, or nothing at all."""
    return _BORDER.fullmatch(line) is not None or is_sentence(line) or rows.take(line.strip())


def _merge(known: Sequence[Card], drawn: Sequence[Card]) -> tuple[list[Card], list[GpuError]]:
    """Each card once. What stands under one index or one UUID and is not the same card spoils the listing."""
    cards: dict[tuple[int | None, str | None, str], Card] = {}
    for card in known or drawn:
        key = (card.index, card.uuid, "" if card.uuid else card.slot)
        cards[key] = _join(cards[key], card) if key in cards else card
    errors = _find_conflicts(list(cards.values()))
    if errors:
        return [], errors
    beside = {card.index: card for card in drawn}
    merged = [_join(card, beside[card.index]) if card.index in beside else card for card in cards.values()]
    return sorted(merged, key=lambda card: (card.index is None, card.index or 0)), []


def _join(card: Card, other: Card) -> Card:
    """`card`, with what only `other` tells of it."""
    return replace(
        card,
        memory_mib=card.memory_mib if card.memory_mib is not None else other.memory_mib,
        slot=card.slot or other.slot,
        why=card.why or other.why,
        detail=card.detail or other.detail,
    )


def _find_conflicts(cards: Sequence[Card]) -> list[GpuError]:
    indexes = [card.index for card in cards if card.index is not None]
    uuids = [card.uuid for card in cards if card.uuid is not None]
    errors = [
        GpuError(
            ErrorCode.DUPLICATE_INDEX,
            f"nvidia-smi listed index {index} {_times(indexes.count(index))}, for different GPUs:"
            " are these the listings of two machines?",
        )
        for index in dict.fromkeys(indexes)
        if indexes.count(index) > 1
    ]
    return errors + [
        GpuError(ErrorCode.DUPLICATE_UUID, f"{uuids.count(uuid)} indexes report the same UUID {uuid}")
        for uuid in dict.fromkeys(uuids)
        if uuids.count(uuid) > 1
    ]


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"  # noqa: PLR2004 - the word for it
