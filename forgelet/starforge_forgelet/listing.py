"""What `forgelet gpus` shows: the GPUs of this machine or of a capture, and why one is not offered."""

import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from starforge.cli.output import note, print_json, print_table, warn
from starforge.containers.gpu_cards import Card, GpuError, Listing, Why
from starforge.containers.gpu_listing import decode_listing, read_capture
from starforge.containers.gpu_probe import Unsaid
from starforge.containers.gpu_users import GpuUser, find_stranger
from starforge.containers.nvidia_smi import NvidiaSmiReader, explain_silence
from starforge.errors import InputError, Unavailable
from starforge.hardware.series import find_series

STDIN = "-"


def show_gpus(source: str | None, *, as_json: bool) -> None:
    """Print the GPUs of this machine, or of the capture in the file `source` ("-": standard input).

    Raises:
        InputError: the file cannot be read, or nothing in it comes from nvidia-smi.
        Unavailable: nvidia-smi answers in a way that nobody can read.

    """
    listing = load_listing() if source is None else load_capture(source)
    if as_json:
        print_json(build_document(listing))
        return
    if listing.cards:
        headers = ("INDEX", "SERIES", "MEMORY", "STATE", "UUID", "NAME")
        print_table(headers, [_build_row(card) for card in listing.cards])
    for error in listing.errors:
        warn(f"{error.code.value}: {error.message}")
    for line in listing.unread:
        note(f"not read: {line}")


def load_listing() -> Listing:
    """What nvidia-smi on this machine says, with who uses the GPUs. Raises Unavailable."""
    reader = NvidiaSmiReader()
    listing = reader.read_cards()
    if isinstance(listing, Unsaid):
        known = explain_silence(listing)
        if known is None:
            raise Unavailable(
                "the GPUs of this machine are not known",
                why=listing.reason,
                next_step="run nvidia-smi -L by hand; the kernel log says what the driver met",
            )
        return Listing(errors=(known,))
    users = reader.read_users() if listing.cards else {}
    if isinstance(users, Unsaid):
        warn(f"who uses the GPUs is not known: {users.reason}")
        return listing
    return replace(listing, cards=tuple(_mark_foreign(card, users) for card in listing.cards))


def load_capture(source: str) -> Listing:
    """What the capture in the file `source` says. Raises InputError."""
    try:
        content = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
    except OSError as error:
        raise InputError(
            f"{source} cannot be read", why=str(error), next_step="name a file that you may read"
        ) from None
    listing = read_capture(decode_listing(content))
    if not listing.cards and not listing.errors:
        raise InputError(
            f"nothing in {source} comes from nvidia-smi",
            why=f"the first line is {listing.unread[0][:80]!r}" if listing.unread else "",
            next_step="capture nvidia-smi -L, or --query-gpu=index,uuid,name,memory.total --format=csv",
        )
    return listing


def build_document(listing: Listing) -> dict[str, Any]:
    """The listing as JSON with a stable schema. Pure."""
    return {
        "gpus": [_build_gpu(card) for card in listing.cards],
        "errors": [_build_error(error) for error in listing.errors],
    }


def _mark_foreign(card: Card, users: Mapping[str, tuple[GpuUser, ...]]) -> Card:
    on_it = users.get(card.uuid or "", ())
    # Which containers are jobs is the engine's to say: here only what runs outside all of them is a stranger.
    stranger = find_stranger(on_it, _list_containers(on_it))
    if card.why is not None or stranger is None:
        return card
    return replace(card, why=Why.FOREIGN if stranger.known else Why.QUARANTINED, detail=stranger.why)


def _list_containers(users: Collection[GpuUser]) -> set[str]:
    return {user.container for user in users if user.container}


def _build_gpu(card: Card) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.uuid,
        "name": card.name,
        "series": find_series(card.name),
        "memory_mib": card.memory_mib,
        "usable": card.why is None,
        "why": card.why.value if card.why else None,
    }


def _build_error(error: GpuError) -> dict[str, str]:
    place = {"bus": error.bus} if error.bus else {}
    return {"code": error.code.value, "message": error.message, **place}


def _build_row(card: Card) -> tuple[str, ...]:
    memory = "?" if card.memory_mib is None else f"{card.memory_mib} MiB"
    state = "usable" if card.why is None else f"{card.why.value}: {card.detail}"
    index = "?" if card.index is None else str(card.index)
    return (index, find_series(card.name) or "?", memory, state, card.uuid or "?", card.name or "?")
