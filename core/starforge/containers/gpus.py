"""GPUs of this machine: which there are. Not knowing is an answer of its own, never "none" and never "all free"."""

import csv
import math
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol, TypeAlias

_FIELDS: Final = ("uuid", "index", "pci.bus_id", "name", "memory.total", "mig.mode.current")
_MIB: Final = 1024 * 1024
_NAMESPACE: Final = uuid.UUID("6f4a1f0e-7c55-4f4b-9a59-0d1b6f2f5f11")
_TIMEOUT_S: Final = 20.0
_FRESH_S: Final = 2.0


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

WITHOUT_GPUS: Final = "for a machine without GPUs set FORGE_GPU_RUNTIME=none"
"""What to do where GPUs are not known because there are none: that is never guessed."""


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
    """GPUs as `nvidia-smi` lists them; the first `ceiling` in PCI order are offered, 0 offers all.

    One program runs at a time however many ask, and none is started while one that cannot be killed still hangs.
    """

    def __init__(self, ceiling: int = 0, program: str = "nvidia-smi", timeout_s: float = _TIMEOUT_S) -> None:
        self._ceiling = ceiling
        self._argv = [program, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._asked_at = -math.inf
        self._answer: SurveyResult = NotKnown("nvidia-smi was not asked yet")
        self._hanging: subprocess.Popen[bytes] | None = None

    def survey(self) -> SurveyResult:
        """Ask the driver within the time limit; an answer that is not two seconds old stands."""
        with self._lock:
            if time.monotonic() - self._asked_at > _FRESH_S:
                self._answer = self._ask()
                self._asked_at = time.monotonic()
            return self._answer

    def _ask(self) -> SurveyResult:
        if self._hanging is not None and self._hanging.poll() is None:
            return NotKnown(f"{self._argv[0]} hangs since an earlier question and cannot be killed")
        said = self._run()
        return said if isinstance(said, NotKnown) else read_listing(said, self._ceiling)

    def _run(self) -> str | NotKnown:
        try:
            process = subprocess.Popen(  # noqa: S603 - argv is ours
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(os.environ, LC_ALL="C"),
            )
        except OSError as error:
            return NotKnown(f"{self._argv[0]} cannot be run: {error}")
        try:
            output, _ = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            self._hanging = None if _kill_group(process) else process
            return NotKnown(f"{self._argv[0]} gave no answer in {self._timeout_s:g} s")
        text = output.decode(errors="replace")
        if process.returncode:
            return NotKnown(f"{self._argv[0]} ended with code {process.returncode}: {text.strip()[:500]}")
        return text


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


def _kill_group(process: "subprocess.Popen[bytes]") -> bool:
    """Kill the program with everything it started; False when it hangs in the driver and cannot die."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=1)
    except ProcessLookupError:
        process.wait()
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.stdout is not None:
            process.stdout.close()
    return True
