"""GPUs of this machine: which there are. Not knowing is an answer of its own, never "none" and never "all free"."""

import csv
import os
import signal
import subprocess
import uuid
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

_FIELDS: Final = ("uuid", "index", "pci.bus_id", "name", "memory.total", "mig.mode.current")
_MIB: Final = 1024 * 1024
_NAMESPACE: Final = uuid.UUID("6f4a1f0e-7c55-4f4b-9a59-0d1b6f2f5f11")
_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. `why_not` is empty for one that can be given to a job."""

    uuid: str
    index: int
    name: str
    memory_bytes: int | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """What was found, in the order of the machine's slots; `complaints` are lines that nobody could read."""

    gpus: tuple[Gpu, ...]
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotKnown:
    """The machine could not be asked, or its answer could not be understood."""

    reason: str


SurveyResult: TypeAlias = GpuSurvey | NotKnown


class GpuSource(Protocol):
    """Says which GPUs this machine has."""

    def survey(self) -> SurveyResult:
        """Look now. Never raises for what the machine does."""


class MadeUpGpus:
    """GPUs that exist in name alone, with UUIDs that stay the same for one `identity` (a machine's)."""

    def __init__(self, count: int, name: str, identity: str) -> None:
        self._survey = GpuSurvey(
            tuple(
                Gpu(
                    uuid=f"GPU-{uuid.uuid5(_NAMESPACE, f'{identity}/{index}')}",
                    index=index,
                    name=name,
                    memory_bytes=None,
                )
                for index in range(count)
            )
        )

    def survey(self) -> SurveyResult:
        """The same GPUs every time."""
        return self._survey


class NvidiaSmi:
    """GPUs as `nvidia-smi` lists them; the first `ceiling` in PCI order are offered, 0 offers all."""

    def __init__(self, ceiling: int = 0, program: str = "nvidia-smi", timeout_s: float = _TIMEOUT_S) -> None:
        self._ceiling = ceiling
        self._argv = [program, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
        self._timeout_s = timeout_s

    def survey(self) -> SurveyResult:
        """Ask the driver now, within the time limit."""
        said = _run(self._argv, self._timeout_s)
        if isinstance(said, NotKnown):
            return said
        return read_listing(said, self._ceiling)


def read_listing(text: str, ceiling: int = 0) -> SurveyResult:
    """The GPUs in the CSV `text`. An unreadable line is a complaint, spoils no other; no GPU at all is NotKnown."""
    found: dict[str, tuple[str, Gpu]] = {}
    complaints: list[str] = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        entry = _read_row([cell.strip() for cell in row])
        if entry is None:
            complaints.append(f"nvidia-smi said {', '.join(row)!r}, which names no GPU")
        elif entry[1].uuid in found:
            complaints.append(f"nvidia-smi named {entry[1].uuid} twice")
        else:
            found[entry[1].uuid] = entry
    if not found:
        return NotKnown("; ".join(complaints) or "nvidia-smi listed nothing")
    in_slots = [gpu for _, gpu in sorted(found.values(), key=lambda entry: entry[0])]
    if ceiling and len(in_slots) < ceiling:
        complaints.append(f"{ceiling} GPUs are set to be offered, {len(in_slots)} are there")
    return GpuSurvey(tuple(in_slots[:ceiling] if ceiling else in_slots), tuple(complaints))


def _read_row(cells: list[str]) -> tuple[str, Gpu] | None:
    if len(cells) != len(_FIELDS) or not cells[0].startswith("GPU-") or not cells[1].isdigit():
        return None
    identity, index, slot, name, memory_mib, mig = cells
    gpu = Gpu(
        uuid=identity,
        index=int(index),
        name=name,
        memory_bytes=int(memory_mib) * _MIB if memory_mib.isdigit() else None,
        why_not="mig_enabled" if mig == "Enabled" else "",
    )
    return slot.lower(), gpu


def _run(argv: list[str], timeout_s: float) -> str | NotKnown:
    try:
        process = subprocess.Popen(  # noqa: S603 - argv is ours
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ, LC_ALL="C"),
        )
    except OSError as error:
        return NotKnown(f"{argv[0]} cannot be run: {error}")
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        return NotKnown(f"{argv[0]} gave no answer in {timeout_s:g} s")
    text = output.decode(errors="replace")
    if process.returncode:
        return NotKnown(f"{argv[0]} ended with code {process.returncode}: {text.strip()[:500]}")
    return text


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        if process.stdout is not None:
            process.stdout.close()
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:  # it hangs in the driver and cannot die: it is left behind
        return
