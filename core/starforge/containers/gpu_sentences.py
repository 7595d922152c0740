"""What `nvidia-smi` says where a GPU, or all of them, should stand: its sentences, each as one error."""

import re
from typing import Final

from starforge.containers.gpu_cards import ErrorCode, GpuError

_HANDLE: Final = re.compile(
    r"unable\s+to\s+determine\s+the\s+device\s+handle\s+for\s+gpu\s*"
    # The index comes before an address or a word; "0000" of an address that follows at once is no index.
    r"(?:(?P<index>\d+)\s*:\s*(?=[0-9a-f]{4,8}:[0-9a-f]{2}:|[a-z]+\s))?"
    r"(?P<bus>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])?"
    r"[ \t]*:?[ \t]*(?P<reason>[^\n]*)",
    re.IGNORECASE,
)

_MACHINE: Final = (
    (
        r"driver/library version mismatch",
        ErrorCode.NVML_MISMATCH,
        "the driver was upgraded and the loaded kernel module is still the old one; reboot the machine",
    ),
    (
        (
            r"libnvidia-ml(?:\.so\S*)? (?:library|not found|.{0,20}cannot open)|(?:find|load) (?:the )?libnvidia-ml"
            r"|nvml shared library not found|could not (?:load|find) (?:the )?nvml"
            r"|nvml: (?:\S+ )?(?:library|function) not found"
        ),
        ErrorCode.NVML_LIBRARY,
        "the driver's library libnvidia-ml is missing or is not the driver's own; install the driver again",
    ),
    (
        r"could ?n.t communicate with the (?:nvidia )?driver|nvml: driver not loaded|driver is not loaded",
        ErrorCode.DRIVER_NOT_LOADED,
        "the driver's kernel module is not loaded (a kernel upgrade, or Secure Boot)",
    ),
    (
        (
            r"nvidia-smi['\"`]?: (?:command )?not found|command not found: nvidia-smi|nvidia-smi['\"`]?:? no such file"
            r"|nvidia-smi['\"`]? is not recognized|nvidia-smi.{0,10}executable file not found"
        ),
        ErrorCode.DRIVER_NOT_LOADED,
        "there is no nvidia-smi: the driver is not installed, or not for whoever asks",
    ),
    (
        r"no devices (?:were )?found|no supported gpus? (?:were )?found",
        ErrorCode.NO_DEVICES,
        "the driver is loaded and no GPU answers to it (lspci may still show one)",
    ),
    (
        r"failed to initialize nvml|nvidia-smi has failed",
        ErrorCode.NVML_UNKNOWN,
        "the driver's library cannot start; in a container the devices were lost, elsewhere see the kernel log",
    ),
)
_MACHINE_PATTERNS: Final = tuple((re.compile(text, re.IGNORECASE), code, words) for text, code, words in _MACHINE)
_TIMED_OUT: Final = re.compile(
    r"timed?[ -]?out|timeoutexpired|timeout: |^terminated$|^killed$|exit (?:code|status):? (?:124|137)\b",
    re.IGNORECASE | re.MULTILINE,
)

TIMED_OUT: Final = GpuError(
    ErrorCode.PROBE_TIMEOUT, "nvidia-smi gave no answer: a GPU or the driver hangs; see the kernel log, then reboot"
)

NO_ROW: Final = GpuError(ErrorCode.NO_DEVICES, "the listing has a header and not one GPU")


def find_errors(text: str) -> list[GpuError]:
    """Every error that `text` tells in sentences, single GPUs first; each said once."""
    errors = [_build_handle_error(match) for match in _HANDLE.finditer(text)]
    flat = " ".join(_HANDLE.sub(" ", text).split())
    machine = [GpuError(code, words) for pattern, code, words in _MACHINE_PATTERNS if pattern.search(flat)]
    # The last sentence is the general form of those before it.
    if len(machine) > 1 and machine[-1].code is ErrorCode.NVML_UNKNOWN:
        machine.pop()
    return list(dict.fromkeys([*errors, *machine]))


def has_timed_out(text: str) -> bool:
    """Whether `text` is what is left of a listing that was cut off, nothing at all included."""
    return not text.strip() or _TIMED_OUT.search(text) is not None


def is_sentence(line: str) -> bool:
    """Whether `line` by itself is one of the sentences above."""
    return bool(find_errors(line))


def _build_handle_error(match: re.Match[str]) -> GpuError:
    bus, index = match["bus"] or "", match["index"] or ""
    card = f"card {bus}" if bus else f"GPU {index}" if index else "a GPU"
    reason = " ".join(match["reason"].split())
    if "lost" in reason.lower():
        return GpuError(ErrorCode.GPU_LOST, f"{card} is lost; reboot the machine to get it back", bus)
    return GpuError(ErrorCode.GPU_HANDLE, f"{card} does not answer ({reason or 'no reason given'})", bus)
