"""Whether the share is mounted here: the mark in its root is read before each launch, within a time limit."""

from threading import Lock, Thread
from typing import Final

from starforge.containers.settings import StorageMark
from starforge.errors import NodeFault
from starforge.said.sentence import say

MARK_FILE: Final = ".starforge-storage"
_TIMEOUT_S: Final = 10.0


class StorageCheck:
    """Reads the mark of one share. A share that hangs holds one thread, however often it is asked."""

    def __init__(self, mark: StorageMark | None, timeout_s: float = _TIMEOUT_S) -> None:
        self._mark = mark
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._reading: Thread | None = None
        self._trouble = ""

    def find_trouble(self) -> str:
        """What is wrong with the share, or an empty string."""
        if self._mark is None:
            return ""
        with self._lock:
            if self._reading is None or not self._reading.is_alive():
                self._reading = Thread(target=self._read, args=(self._mark,), name="storage check", daemon=True)
                self._reading.start()
            self._reading.join(self._timeout_s)
            if self._reading.is_alive():
                return say("storage.silent", root=str(self._mark.root))
            return self._trouble

    def require(self) -> None:
        """Raise NodeFault unless the right share is mounted."""
        trouble = self.find_trouble()
        if trouble:
            raise NodeFault(trouble, next_step=say("storage.mount_next"))

    def _read(self, mark: StorageMark) -> None:
        path = mark.root / MARK_FILE
        try:
            found = path.read_bytes().strip()
        except OSError as error:
            self._trouble = say("storage.not_mounted", path=str(path), why=str(error.strerror))
            return
        matches = found == mark.content.strip().encode()
        self._trouble = "" if matches else say("storage.other_share", path=str(path))
