"""The training process and everything it left behind: start, signal, reap, and end to the last descendant."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Dict, List, Optional, Sequence, Set

from starforge.runner.signals import unblocked

_PR_SET_CHILD_SUBREAPER = 36
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20
_FIELDS_BEFORE_PPID = 1
_GROUP_FIELD = 2


def become_subreaper() -> bool:
    """Make every orphaned descendant a child of this process, so that none escapes. False where the kernel cannot."""
    try:
        import ctypes  # noqa: PLC0415 - a minimal Python may lack it

        library = ctypes.CDLL(None, use_errno=True)
        return bool(library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return os.getpid() == 1  # the first process of a container is the reaper without asking


class Child:
    """The training process, the leader of its own session and process group; its output is one pipe, `output`."""

    def __init__(self, argv: Sequence[str], environment: Dict[str, str], directory: str) -> None:
        """Start it. Raises OSError when there is no such program or it cannot be executed."""
        self.output, writer = os.pipe()
        _widen(writer)
        try:
            with unblocked():
                self._process = subprocess.Popen(  # noqa: S603 - running the user's own command line is the purpose
                    list(argv),
                    env=environment,
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=writer,
                    stderr=writer,
                    start_new_session=True,
                )
        except OSError:
            os.close(self.output)
            raise
        finally:
            os.close(writer)
        os.set_blocking(self.output, False)
        self.pid = self._process.pid
        self.status: Optional[int] = None

    @property
    def code(self) -> Optional[int]:
        """The exit code, 128 + N after death by signal N; None while it runs."""
        if self.status is None:
            return None
        return 128 + os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else os.WEXITSTATUS(self.status)

    @property
    def signal(self) -> Optional[int]:
        """The signal it died of, if any."""
        return os.WTERMSIG(self.status) if self.status is not None and os.WIFSIGNALED(self.status) else None

    def reap(self) -> None:
        """Collect every child that ended: the training process, and orphans that became ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = status
                self._process.returncode = self.code  # its destructor is not to look for the process again

    def signal_group(self, number: int) -> None:
        """Send a signal to its process group, whoever of it is left."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def is_group_alive(self) -> bool:
        """Say whether anyone of its process group still runs; zombies do not."""
        return any(group == self.pid for _, group in _read_living().values())

    def end_descendants(self, patience_s: float = 10.0) -> List[int]:
        """Kill every descendant until none is left; give the ids of those that could not be ended in time."""
        deadline = time.monotonic() + patience_s
        if self.status is None or self.is_group_alive():
            self.signal_group(signal.SIGKILL)
        while True:
            self.reap()
            left = find_descendants(os.getpid())
            if not left or time.monotonic() > deadline:
                return sorted(left)
            for pid in left:
                _kill(pid)
            time.sleep(0.005)


def find_descendants(root: int) -> Set[int]:
    """List the living descendants of a process, from /proc."""
    living = _read_living()
    found: Set[int] = set()
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in living.items() if pid not in found and (parent == root or parent in found)}
        found |= more
        grown = bool(more)
    return found


def _read_living() -> "Dict[int, tuple[int, int]]":
    """Give pid -> (parent, process group) of all processes that are no zombies."""
    table = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        names = []  # without /proc only the process group can be reached
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended in between
        if fields and fields[0] not in (b"Z", b"X"):
            table[int(name)] = (int(fields[_FIELDS_BEFORE_PPID]), int(fields[_GROUP_FIELD]))
    return table


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _widen(pipe: int) -> None:
    """Let the pipe hold more than its 64 KiB, so that a chatty job seldom waits. Not every kernel allows it."""
    import fcntl  # noqa: PLC0415 - not every minimal image has it

    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        return
