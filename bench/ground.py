"""What several benches stand on, made at first use and gone at the end: an engine, consoles, folders."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Self

from e2e.support.console import ConsoleProcess, console_process
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import host_image


class Unmeasurable(Exception):
    """This machine cannot make the comparison; says why."""


class Ground:
    """A context; what it hands out ends with it."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._folders = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    @cached_property
    def root(self) -> Path:
        """A folder on a real disk that the jobs' user can pass."""
        root = Path(tempfile.mkdtemp(prefix="starforge-bench-", dir="/var/tmp"))
        root.chmod(0o755)
        self._stack.callback(shutil.rmtree, root, ignore_errors=True)
        return root

    def folder(self) -> Path:
        """A new empty folder."""
        self._folders += 1
        folder = self.root / str(self._folders)
        folder.mkdir()
        return folder

    @cached_property
    def machine(self) -> PrivateEngine:
        """An engine of the bench's own. Raises Unmeasurable."""
        obstacle = find_obstacle()
        if obstacle is not None:
            raise Unmeasurable(obstacle)
        return self._stack.enter_context(private_engine(self.folder()))

    @cached_property
    def image(self) -> str:
        """An image with bash and Python, present at the engine."""
        return host_image(self.machine)

    @contextlib.contextmanager
    def console(self, settings: Mapping[str, str] | None = None) -> Iterator[ConsoleProcess]:
        """A console of its own, set up and serving; what it has started ends with it, so that the next finds room."""
        with console_process(self.folder(), self.machine.socket_path, settings) as console:
            try:
                yield console
            finally:
                console.stop()
                for container in self.machine.engine.list_containers():
                    self.machine.engine.remove(str(container["Id"]), force=True)
