"""What `nvidia-smi` of this machine says of its GPUs: the listing, and who uses them.

A field that a driver does not know is left out of the question as long as that driver stays; what it would have told is
then not known, and spoils nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from starforge.containers.gpu_cards import ONE_GPU_ALONE, ErrorCode, GpuError, Listing
from starforge.containers.gpu_listing import read_capture
from starforge.containers.gpu_probe import Probe, Said, Unsaid
from starforge.containers.gpu_sentences import TIMED_OUT
from starforge.containers.gpu_users import FIELDS, GpuUser, read_users

PROGRAM: Final = "nvidia-smi"
TIMEOUT_S: Final = 20.0

_NEEDED: Final = ("uuid", "index", "pci.bus_id", "name", "memory.total", "driver_version")
_HELPFUL: Final = (
    "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "retired_pages.pending",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "reset_status.reset_required",
    "reset_status.drain_and_reset_recommended",
    "gpu_recovery_action",
)
_UNKNOWN_FIELD: Final = re.compile(r'Field "([^"]+)" is not a valid field to query')


class NvidiaSmiReader:
    """Asks this machine's driver. Not safe for several threads at once."""

    def __init__(self, program: str = PROGRAM, timeout_s: float = TIMEOUT_S, proc: Path = Path("/proc")) -> None:
        self._probe = Probe(program, timeout_s)
        self._proc = proc
        self._left_out: frozenset[str] = frozenset()
        self._driver = ""

    def read_cards(self) -> Listing | Unsaid:
        """Every GPU with what decides whether it can be used; Unsaid when there is no answer that can be read.

        Where one GPU keeps the driver from listing any, the others are asked by name.
        """
        listing = self._query()
        if isinstance(listing, Unsaid) or listing.cards or not _only_single_gpus_failed(listing.errors):
            return listing
        return self._query_living(listing)

    def read_users(self) -> Mapping[str, tuple[GpuUser, ...]] | Unsaid:
        """Per UUID the processes that use the GPU."""
        said = self._probe.ask([f"--query-compute-apps={','.join(FIELDS)}", "--format=csv,noheader"])
        if isinstance(said, Unsaid):
            return said
        users = read_users(said.text, self._proc) if said.code == 0 else None
        return Unsaid(f"{PROGRAM} said {said.text.strip()[:200]!r}") if users is None else users

    def _query(self, only: Sequence[str] = ()) -> Listing | Unsaid:
        fields: tuple[str, ...] = ()
        for _ in range(len(_HELPFUL) + 1):
            fields = (*_NEEDED, *(field for field in _HELPFUL if field not in self._left_out))
            said = self._ask(fields, only)
            unknown = set() if isinstance(said, Unsaid) else set(_UNKNOWN_FIELD.findall(said.text)) & set(_HELPFUL)
            if not unknown - self._left_out:
                return self._read(said, fields)
            self._left_out |= unknown
        return Unsaid(f"{PROGRAM} refuses one field after the other")

    def _ask(self, fields: Sequence[str], only: Sequence[str]) -> Said | Unsaid:
        chosen = [f"--id={','.join(only)}"] if only else []
        return self._probe.ask([f"--query-gpu={','.join(fields)}", "--format=csv,nounits", *chosen])

    def _read(self, said: Said | Unsaid, fields: Sequence[str]) -> Listing | Unsaid:
        if isinstance(said, Unsaid):
            return said
        listing = read_capture(said.text, fields)
        if said.code and not listing.errors:
            return Unsaid(f"{self._probe.program} ended with code {said.code}: {said.text.strip()[:500]}")
        if listing.driver and listing.driver != self._driver:
            # Another driver may know what this one did not: the next question is the whole one again.
            self._left_out = self._left_out if not self._driver else frozenset()
            self._driver = listing.driver
        return listing

    def _query_living(self, failed: Listing) -> Listing | Unsaid:
        said = self._probe.ask(["-L"])
        if isinstance(said, Unsaid):
            return said
        living = [card.uuid for card in read_capture(said.text).cards if card.uuid and card.why is None]
        if not living:
            return failed
        listing = self._query(living)
        if isinstance(listing, Unsaid):
            return listing
        errors = tuple(dict.fromkeys([*failed.errors, *listing.errors]))
        return Listing(listing.cards, errors, listing.unread, listing.driver)


def explain_silence(unsaid: Unsaid) -> GpuError | None:
    """`unsaid` as an error of a listing, or None when it is none of the kinds that are known."""
    if unsaid.hangs:
        return GpuError(TIMED_OUT.code, f"{unsaid.reason}: a GPU or the driver hangs; see the kernel log, then reboot")
    if unsaid.absent:
        words = "the NVIDIA driver is not installed, or its programs are not on PATH"
        return GpuError(ErrorCode.DRIVER_NOT_LOADED, f"{unsaid.reason}; {words}")
    return None


def _only_single_gpus_failed(errors: Sequence[GpuError]) -> bool:
    return bool(errors) and all(error.code in ONE_GPU_ALONE for error in errors)
