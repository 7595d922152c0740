"""Secrets that are looked for, in every form in which they might be written down, and everywhere at once."""

import base64
import contextlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

_PAUSE_S: Final = 0.02


@dataclass
class Canaries:
    """Values by what they are. More may be added while somebody watches."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    _forms: dict[str, tuple[bytes, ...]] = field(default_factory=dict, repr=False)

    def add(self, name: str, value: str) -> str:
        """Look for this value too; gives it back."""
        assert len(value) >= 12, "what is shorter is found by chance"
        self.values[name] = value
        self._forms = {**self._forms, name: tuple(_list_forms(value))}
        return value

    def find(self, content: bytes | str) -> list[str]:
        """What of them stands in `content`."""
        raw = content.encode() if isinstance(content, str) else content
        return [name for name, forms in self._forms.items() if any(form in raw for form in forms)]

    def find_in_files(self, *roots: Path) -> dict[str, list[str]]:
        """What of them stands in which file below `roots`."""
        files = (file for root in roots for file in root.rglob("*") if file.is_file() and not file.is_symlink())
        found = {str(file): self._find_in_file(file) for file in files}
        return {file: names for file, names in found.items() if names}

    def _find_in_file(self, file: Path) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return self.find(file.read_bytes())
        return []


def _list_forms(value: str) -> Iterator[bytes]:
    raw = value.encode()
    yield raw
    yield raw.hex().encode()
    yield urllib.parse.quote(value, safe="").encode()
    yield urllib.parse.quote_plus(value).encode()
    yield json.dumps(value)[1:-1].encode()
    for lead in range(3):  # wherever it begins in what was encoded
        yield base64.b64encode(b"\0" * lead + raw)[4 if lead else 0 : -4]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A value seen at a process: in what it was called with, or in its environment."""

    secret: str
    where: str
    uid: int
    call: str


class ProcessWatch:
    """Looks at every process of this machine again and again, for as long as its block lasts."""

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="process watch")
        self.seen: set[Sighting] = set()
        self.rounds = 0
        self.calls: set[str] = set()
        """Everything that ran meanwhile."""
        self._known: dict[str, tuple[bytes, int]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_PAUSE_S):
            for folder in Path("/proc").iterdir():
                if folder.name.isdecimal():
                    with contextlib.suppress(OSError):  # it has ended
                        self._look(folder)
            self.rounds += 1

    def _look(self, folder: Path) -> None:
        raw = (folder / "cmdline").read_bytes()
        state = (raw, len(self._canaries.values))
        if self._known.get(folder.name) == state:
            return  # the same program, and no secret that it was not looked at for
        content = {"argv": raw, "environ": (folder / "environ").read_bytes()}
        call, uid = raw.replace(b"\0", b" ").decode(errors="replace").strip(), folder.stat().st_uid
        self._known[folder.name] = state
        self.calls.add(call)
        for where, words in content.items():
            for secret in self._canaries.find(words):
                self.seen.add(Sighting(secret, where, uid, call))
