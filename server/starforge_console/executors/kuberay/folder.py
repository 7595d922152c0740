"""The attempt's own folder on the shared storage, as the script in its pods and the console use it."""

import re
from dataclasses import dataclass
from typing import Final

from starforge.contract.launch import LaunchRequest
from starforge_console.executors import attempt_folder
from starforge_console.executors.kuberay.script import (
    ENDED_FILE,
    ENTRY_FILE,
    OWN_FOLDER,
    SPREAD_FILE,
    STOP_FILE,
    build_script,
    plan_script,
)
from starforge_console.executors.kuberay.spread import build_spread


@dataclass(frozen=True, slots=True)
class StartMark:
    """Which pod began the attempt, and when by its node's clock in Unix seconds; empty where that cannot be read."""

    pod: str
    at: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How the script says that the attempt ended. `left`: its node was taken away."""

    code: int
    out_of_memory: bool = False
    left: bool = False


FENCED: Final = StartMark(pod="", at=-1)
"""What stands for a mark that a fence made."""
_MARK: Final = re.compile(r"pod ([0-9A-Za-z-]{1,80}) (\d{1,12})\n")
_ENDED: Final = re.compile(r"(\d{1,3})(?: (oom|left))?\n")


class KubeFolder(attempt_folder.AttemptFolder):
    """`workdir` is the attempt's directory."""

    def __init__(self, workdir: str) -> None:
        super().__init__(workdir, OWN_FOLDER)

    def prepare_scripts(self, request: LaunchRequest) -> None:
        """Make the folder with all that the pods run. Raises NodeFault when the storage refuses."""
        # What is written later is there from the start: shared file systems remember for long that it was not.
        files = {ENTRY_FILE: build_script(plan_script(request)), STOP_FILE: "", ENDED_FILE: ""}
        if len(request.pools) > 1 or request.pools[0].nodes > 1:
            files[SPREAD_FILE] = build_spread(request.workdir, OWN_FOLDER, ENTRY_FILE, request.env)
        self.prepare(request.user, files)

    def find_mark(self) -> StartMark | None:
        """What began the attempt, `FENCED`, or None as long as nothing did. Raises BackendUnreachable if not known."""
        text = self.read_mark()
        if text is None:
            return None
        if text == attempt_folder.FENCED:
            return FENCED
        match = _MARK.fullmatch(text)
        return StartMark(pod=match[1], at=int(match[2])) if match else StartMark(pod="", at=0)

    def find_ended(self) -> Ended | None:
        """How it ended; None where the script has not said so. Raises BackendUnreachable if not known."""
        match = _ENDED.fullmatch(self.read_if_there(ENDED_FILE))
        if match is None:
            return None
        return Ended(code=int(match[1]), out_of_memory=match[2] == "oom", left=match[2] == "left")

    def ask_to_end(self, remaining_s: float) -> None:
        """Let the script end the attempt within so many seconds. Raises BackendUnreachable if that is not known."""
        self.put(STOP_FILE, f"{max(0, int(remaining_s))}\n")
