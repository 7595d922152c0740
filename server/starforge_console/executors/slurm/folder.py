"""The attempt's own folder on the shared storage, as Slurm's batch scripts and the console use it."""

import re
from collections.abc import Mapping
from typing import Final

from starforge_console.executors import attempt_folder
from starforge_console.executors.slurm.script import FAILED_FILE, OWN_FOLDER, SECRETS_FILE, write_secrets
from starforge_console.executors.slurm.states import StartMark

FENCED: Final = StartMark(job_id=-1, restarts=0)
"""What stands for a mark that a fence made."""
_MARK: Final = re.compile(r"job (\d{1,10}) (\d{1,5})\n")


class SlurmFolder(attempt_folder.AttemptFolder):
    """`workdir` is the attempt's directory."""

    def __init__(self, workdir: str) -> None:
        super().__init__(workdir, OWN_FOLDER, SECRETS_FILE)

    def prepare_secrets(self, user: str | None, secrets: Mapping[str, str]) -> None:
        """Make the folder for `user` with the secrets in it. Raises NodeFault when the storage refuses."""
        self.prepare(user, {SECRETS_FILE: write_secrets(secrets)})

    def find_mark(self) -> StartMark | None:
        """What began the attempt, `FENCED`, or None as long as nothing did. Raises BackendUnreachable if not known."""
        text = self.read_mark()
        if text is None:
            return None
        if text == attempt_folder.FENCED:
            return FENCED
        match = _MARK.fullmatch(text)
        return StartMark(int(match[1]), int(match[2])) if match else StartMark(0, 0)

    def tells_of_memory(self) -> bool:
        """Whether the node that failed first had a process killed for memory; False where nothing tells."""
        try:
            return self.read(FAILED_FILE).split()[2:] == ["oom"]
        except OSError:
            return False
