"""The process that fetches one snapshot of a model or dataset: `python -m starforge_console.inputs.fetch_process`.

What to fetch comes as a line of JSON on standard input (`Wanted`), the hub's token with it: neither arguments nor
environment ever hold it. What happens goes out as lines of JSON: `{"done": bytes, "of": bytes}` as it goes on, and last
`{"ready": true}`, `{"refused": why}` for what can never be had, or `{"unknown": why}` for what may be had later.

Files that have arrived are kept over every kind of end, and one that was cut goes on where it was cut. Each is compared
with the digest that the hub names for it. The snapshot's folder appears once all of them are there. The process ends
with the console: when its standard input closes.
"""

import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from starforge.wording import cut_middle

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from huggingface_hub.hf_api import RepoFile

FILES_AT_ONCE: Final = 4
TOLD_EVERY_S: Final = 0.5
_CHUNK_BYTES: Final = 1 << 20
_WRITTEN_AT_ONCE_BYTES: Final = 64 << 10
"""The library keeps so much in memory before it writes; its own 10 MiB would be lost with every cut of a slow line."""
_WORDS_AT_MOST: Final = 1000
_UMASK: Final = 0o022
"""The job's user reads what the console's user fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One snapshot: `folder` is where it is to appear."""

    endpoint: str
    kind: str
    repo: str
    commit: str
    folder: str
    token: str | None

    def __repr__(self) -> str:
        return f"Wanted({self.kind} {self.repo} {self.commit})"

    def to_line(self) -> bytes:
        """The wish as the process reads it."""
        return json.dumps(asdict(self)).encode() + b"\n"


class _Changed(Exception):
    """A file arrived with another size or digest than the hub names."""


class _Unfit(Exception):
    """The repository can never be given to a job."""


def main() -> None:
    """Fetch what standard input names, and say how it ended. Always ends the process."""
    os.umask(_UMASK)
    wanted = Wanted(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_the_console, name="console", daemon=True).start()
    _tell(_fetch_and_explain(wanted))
    sys.stdout.flush()
    os._exit(0)  # threads of the library may still wait for a server


def _end_with_the_console() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _fetch_and_explain(wanted: Wanted) -> dict[str, Any]:
    import httpx2  # noqa: PLC0415 - after the wish was read: who asks waits for nothing
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 - the same

    from starforge_console.domain.inputs import UNANSWERED  # noqa: PLC0415 - the same
    from starforge_console.inputs.hub import explain_answer, mask  # noqa: PLC0415 - the same

    def tell(word: str, why: str) -> dict[str, Any]:
        return {word: _shorten(mask(why, wanted.token) if wanted.token else why)}

    try:
        _fetch(wanted)
    except HfHubHTTPError as error:
        answer = explain_answer(error.response)
        word = "unknown" if answer.standing in UNANSWERED else "refused"
        return tell(word, f"{answer.standing.name.lower().replace('_', ' ')}: {answer.why}")
    except (httpx2.HTTPError, _Changed) as error:
        return tell("unknown", f"{error}" or type(error).__name__)
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return tell("unknown", f"{error.strerror or error}{place}")
    except (ValueError, _Unfit) as error:
        return tell("refused", str(error))
    return {"ready": True}


def _fetch(wanted: Wanted) -> None:
    from huggingface_hub import HfApi, constants  # noqa: PLC0415 - as above
    from huggingface_hub.hf_api import RepoFile  # noqa: PLC0415 - the same

    constants.DOWNLOAD_CHUNK_SIZE = _WRITTEN_AT_ONCE_BYTES
    api = HfApi(endpoint=wanted.endpoint, token=wanted.token or False)
    listed = api.list_repo_tree(wanted.repo, recursive=True, revision=wanted.commit, repo_type=wanted.kind)
    files = [_check_path(one) for one in listed if isinstance(one, RepoFile)]
    if len({PurePosixPath(file.path) for file in files}) < len(files):
        raise _Unfit("the repository names one file twice")
    shelf = _Shelf(Path(wanted.folder), files)
    told = threading.Event()
    teller = threading.Thread(target=_tell_progress, args=(shelf, told), name="progress", daemon=True)
    teller.start()
    with ThreadPoolExecutor(FILES_AT_ONCE, thread_name_prefix="file") as pool:
        for _ in pool.map(lambda file: _fetch_file(wanted, shelf, file), files):
            pass
    told.set()
    teller.join()
    shelf.finish()


def _check_path(file: "RepoFile") -> "RepoFile":
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or "\0" in file.path or not path.parts:
        raise _Unfit(f"the repository names a file {file.path[:200]!r}, which leads out of it")
    return file


class _Shelf:
    """The files of one snapshot while they arrive: beside the folder in which they are to appear."""

    def __init__(self, folder: Path, files: Sequence["RepoFile"]) -> None:
        self._folder = folder
        self._files = files
        self._building = folder.with_name(f".{folder.name}.fetching")
        for name in ("files", "parts"):
            (self._building / name).mkdir(parents=True, exist_ok=True)
        self._hold()

    def place(self, file: "RepoFile") -> Path:
        """Where the whole file lies."""
        return self._building / "files" / file.path

    def part(self, file: "RepoFile") -> Path:
        """Where the beginning of a file lies, until it is whole."""
        return self._building / "parts" / hashlib.sha256(file.path.encode()).hexdigest()

    def count(self) -> tuple[int, int]:
        """How many bytes are here, and how many there are in all."""
        here = sum(_size(self.place(file)) or _size(self.part(file)) for file in self._files)
        return here, sum(file.size for file in self._files)

    def _hold(self) -> None:
        """Keep other processes out until this one ends: what they write would change files that were compared already.

        Raises OSError when another one is at it. Where the storage knows no locks, nobody is kept out.
        """
        lock = os.open(self._building / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another process is fetching it", str(self._building)) from None
        except OSError:
            return

    def finish(self) -> None:
        """Let the snapshot appear, whole."""
        (self._building / "files").rename(self._folder)
        shutil.rmtree(self._building)


def _fetch_file(wanted: Wanted, shelf: _Shelf, file: "RepoFile") -> None:
    from huggingface_hub import hf_hub_url  # noqa: PLC0415 - as above
    from huggingface_hub.file_download import http_get  # noqa: PLC0415 - the same

    place, part = shelf.place(file), shelf.part(file)
    if place.exists():
        return
    url = hf_hub_url(wanted.repo, file.path, repo_type=wanted.kind, revision=wanted.commit, endpoint=wanted.endpoint)
    if _size(part) > file.size:
        part.unlink()
    with _Bounded(part, file) as target:
        start = target.seek(0, os.SEEK_END)
        # The library's client keeps the token to itself where the hub leads on to another host.
        signed = {"Authorization": f"Bearer {wanted.token}"} if wanted.token else {}
        http_get(
            url, target, resume_size=start, headers={"Accept-Encoding": "identity", **signed}, expected_size=file.size
        )
        target.flush()
        os.fsync(target.fileno())
    if not _is_as_named(part, file):
        part.unlink()
        raise _Changed(f"{file.path} arrived with another digest than the hub names")
    place.parent.mkdir(parents=True, exist_ok=True)
    part.rename(place)


class _Bounded(io.FileIO):
    """The beginning of a file, that takes no more than the file has: a body may go on for ever."""

    def __init__(self, part: Path, file: "RepoFile") -> None:
        super().__init__(part, "r+" if part.exists() else "w+")
        self._file = file

    def write(self, content: "ReadableBuffer") -> int:
        """Write all of it. Raises _Changed when the file would become too long."""
        rest = whole = memoryview(content)
        if self.tell() + len(whole) > self._file.size:
            message = f"{self._file.path} is longer than the {self._file.size} bytes that the hub names"
            raise _Changed(message)
        while rest:
            rest = rest[super().write(rest) :]
        return len(whole)


def _is_as_named(path: Path, file: "RepoFile") -> bool:
    """Whether the content has the digest that the hub names: of a large file its sha256, else what git gives it."""
    if file.lfs is not None:
        wanted, digest = file.lfs.sha256, hashlib.sha256()
    else:
        wanted, digest = file.blob_id, hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == wanted


def _tell_progress(shelf: _Shelf, over: threading.Event) -> None:
    while not over.wait(TOLD_EVERY_S):
        done, of = shelf.count()
        _tell({"done": done, "of": of})


def _shorten(text: str) -> str:
    """What a hub wrote, short enough for a line."""
    return cut_middle(" ".join(text.split()), _WORDS_AT_MOST)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _tell(said: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
