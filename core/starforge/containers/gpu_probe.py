"""Runs `nvidia-smi` within a time limit: one at a time, and its whole process group is killed at the end of it."""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

DIED_WAITING_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Said:
    """What the program printed, errors included, and its exit code."""

    text: str
    code: int


@dataclass(frozen=True, slots=True)
class Unsaid:
    """Why there is no answer. `absent`: the program is not on this machine. `hangs`: it took too long."""

    reason: str
    absent: bool = False
    hangs: bool = False


class Probe:
    """Asks one program. Nothing is started while an earlier one, which cannot be killed, still hangs."""

    def __init__(self, program: str, timeout_s: float) -> None:
        self.program = program
        self._timeout_s = timeout_s
        self._hanging: subprocess.Popen[bytes] | None = None

    def ask(self, arguments: Sequence[str]) -> Said | Unsaid:
        """Run the program with `arguments`. Never raises for what the machine does."""
        if self._hanging is not None and self._hanging.poll() is None:
            return Unsaid(f"{self.program} hangs since an earlier question and cannot be killed", hangs=True)
        try:
            process = subprocess.Popen(  # noqa: S603 - argv is ours
                [self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(os.environ, LC_ALL="C"),
            )
        except FileNotFoundError as error:
            return Unsaid(f"{self.program} cannot be run: {error}", absent=True)
        except OSError as error:
            return Unsaid(f"{self.program} cannot be run: {error}")
        try:
            output, _ = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            self._hanging = None if _kill_group(process) else process
            return Unsaid(f"{self.program} gave no answer in {self._timeout_s:g} s", hangs=True)
        return Said(output.decode(errors="replace"), process.returncode)


def _kill_group(process: "subprocess.Popen[bytes]") -> bool:
    """Kill the program with everything it started; False when it hangs in the driver and cannot die."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=DIED_WAITING_S)
    except ProcessLookupError:
        process.wait()
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.stdout is not None:
            process.stdout.close()
    return True
