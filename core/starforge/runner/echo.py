"""Shows the job's output on the runner's own stdout without ever waiting for whoever reads that."""

from __future__ import annotations

import os


class Echo:
    """While the engine is away its pipe fills; what does not fit is dropped here and stands in the spool."""

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._is_open = True
        try:
            self._was_blocking = os.get_blocking(fd)
            os.set_blocking(fd, False)
        except OSError:
            self._is_open = False

    def show(self, masked: bytes) -> None:
        """Write as much as fits now."""
        if not self._is_open:
            return
        view = memoryview(masked)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except BlockingIOError:
            return
        except OSError:
            self._is_open = False

    def close(self) -> None:
        """Leave the descriptor as it was."""
        if self._is_open:
            os.set_blocking(self._fd, self._was_blocking)
            self._is_open = False
