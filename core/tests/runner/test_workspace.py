"""Unpacking a workspace: all of it or none, inside its tree, and never more than the archive holds."""

import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.runner.support.attempt import Attempt, find_interpreters, hash_of, pack
from starforge.contract import capsule as contract
from starforge.runner import workspace
from starforge.runner.endings import Interrupted, Refusal
from starforge.runner.workspace import unpack_workspace

CORE = Path(contract.__file__).parents[2]
Fill = Callable[[tarfile.TarFile], object]


def add_file(
    archive: tarfile.TarFile, name: str, content: bytes = b"x", records: dict[str, str] | None = None
) -> object:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.pax_headers = records or {}
    archive.addfile(member, io.BytesIO(content))
    return member


def add_link(archive: tarfile.TarFile, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> object:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    archive.addfile(member)
    return member


def write(tmp_path: Path, fill: Fill) -> Path:
    path = tmp_path / "workspace.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        fill(archive)
    return path


def unpack(path: Path, files: int | None = None, check: Callable[[], None] = lambda: None) -> Path:
    target = path.parent / "work.tmp"
    unpack_workspace(contract.Workspace(str(path), hash_of(path)), str(target), files, check)
    return target


def refuse(path: Path, files: int | None = None) -> str:
    before = {entry.name for entry in path.parent.iterdir()}
    with pytest.raises(Refusal) as refused:
        unpack(path, files)
    assert (refused.value.cause, refused.value.code) == ("workspace", contract.EXIT_CAPSULE_CHANGED)
    assert {entry.name for entry in path.parent.iterdir()} - before == {"work.tmp"}
    assert str(path.parent / "work.tmp") not in refused.value.message
    return refused.value.message


ESCAPES: dict[str, Fill] = {
    "dots": lambda archive: add_file(archive, "../evil"),
    "absolute": lambda archive: add_file(archive, "/evil"),
    "link outside": lambda archive: add_link(archive, "a", "../.."),
    "absolute link": lambda archive: add_link(archive, "a", "/etc/passwd"),
    "chained links": lambda archive: (
        add_file(archive, "d/e/f"),
        add_link(archive, "d/e/up", "../.."),
        add_link(archive, "out", "d/e/up/../x"),
    ),
    "hard link": lambda archive: add_link(archive, "a", "/etc/passwd", tarfile.LNKTYPE),
    "device": lambda archive: add_link(archive, "a", "", tarfile.CHRTYPE),
    "through a link": lambda archive: (add_link(archive, "a", ".."), add_file(archive, "a/evil")),
    "a link through a link": lambda archive: (add_link(archive, "a", ".."), add_link(archive, "a/b/evil", "c")),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_workspace_that_leaves_its_tree_is_refused(tmp_path: Path, name: str) -> None:
    refuse(write(tmp_path, ESCAPES[name]))


def test_links_that_stay_inside_and_programs_are_unpacked(tmp_path: Path) -> None:
    def fill(archive: tarfile.TarFile) -> None:
        add_link(archive, "data/latest", "../src/run.sh")
        member = tarfile.TarInfo("src/run.sh")
        member.mode = 0o700
        archive.addfile(member)

    root = unpack(write(tmp_path, fill), files=2)
    assert (root / "data" / "latest").resolve().name == "run.sh"
    assert (root / "src" / "run.sh").stat().st_mode & 0o777 == 0o755


def write_raw(tmp_path: Path, *pieces: bytes) -> Path:
    path = tmp_path / "workspace.tar"
    path.write_bytes(b"".join(pieces))
    return path


def block(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 512)


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


END = b"\0" * 1024
SOUND = header("sound", 3) + block(b"abc")
TB = 1 << 40


SPARSE: dict[str, dict[str, str]] = {
    "0.0": {"GNU.sparse.map": f"0,1,{TB},0", "GNU.sparse.size": str(TB), "GNU.sparse.numblocks": "2"},
    "0.1": {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1", "GNU.sparse.size": "9"},
    "a size alone": {"GNU.sparse.size": str(TB)},
    "a real size alone": {"GNU.sparse.realsize": str(TB)},
}


@pytest.mark.parametrize("dialect", SPARSE)
def test_a_sparse_member_is_refused(tmp_path: Path, dialect: str) -> None:
    path = write(tmp_path, lambda archive: add_file(archive, "hole", b"x", SPARSE[dialect]))
    assert "'hole' is sparse" in refuse(path)


def test_a_sparse_member_of_the_old_kind_is_refused(tmp_path: Path) -> None:
    old = bytearray(header("hole", 1, tarfile.GNUTYPE_SPARSE))
    old[386:410] = b"%011o\0%011o\0" % (0, 1)
    old[483:495] = b"%011o\0" % (1 << 32)
    old[148:156] = b"%06o\0 " % sum(old[:148] + b" " * 8 + old[156:])
    assert "'hole' is sparse" in refuse(write_raw(tmp_path, bytes(old), block(b"x"), END))


def test_a_sparse_map_that_is_no_map_is_damage(tmp_path: Path) -> None:
    records = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(TB)}
    path = write(tmp_path, lambda archive: add_file(archive, "hole", b"no map" * 100, records))
    assert "the archive is damaged at byte 0: " in refuse(path)


def test_members_may_not_have_more_bytes_than_their_archive(tmp_path: Path) -> None:
    path = write_raw(tmp_path, SOUND, header("huge", TB), END)
    assert "up to 'huge' have more bytes than the 2560 of the archive" in refuse(path)
    assert (tmp_path / "work.tmp" / "sound").stat().st_size == 3


DAMAGED: dict[str, tuple[tuple[bytes, ...], str]] = {
    "a header": ((SOUND, b"\xff" * 512, SOUND, END), "damaged at byte 1024"),
    "a header's checksum": ((SOUND, SOUND.replace(b"ustar", b"uster"), END), "damaged at byte 1024"),
    "a part of a header": ((SOUND, b"x" * 100), "damaged at byte 1024"),
    "what follows the end": ((SOUND, END, SOUND), "damaged at byte 2048"),
    "a content that is cut off": ((SOUND, header("cut", 700), b"x" * 600), "'cut' is cut off"),
    "the first header": ((b"no tar" * 1000,), "damaged at byte 0"),
    "nothing at all": ((), "damaged at byte 0"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_archive_is_refused_by_the_place(tmp_path: Path, what: str) -> None:
    pieces, said = DAMAGED[what]
    assert said in refuse(write_raw(tmp_path, *pieces))


@pytest.mark.parametrize(("size", "said"), [("-5", "'odd' says that it has -5 bytes"), ("abc", "damaged at byte 1")])
def test_a_size_that_is_none_is_refused(tmp_path: Path, size: str, said: str) -> None:
    path = write(
        tmp_path, lambda archive: (add_file(archive, "odd", b"x" * 600, {"size": size}), add_file(archive, "b"))
    )
    assert said in refuse(path)


def test_headers_without_end_are_refused(tmp_path: Path) -> None:
    glob = header("g", 0, tarfile.XGLTYPE) * 5000
    assert "the archive is damaged at byte 0" in refuse(write_raw(tmp_path, glob, END))


@pytest.mark.parametrize("tail", [b"", b"\0" * 512, END, END * 20])
def test_an_archive_ends_at_its_zeros_or_with_the_file(tmp_path: Path, tail: bytes) -> None:
    assert (unpack(write_raw(tmp_path, SOUND, tail), files=1) / "sound").read_bytes() == b"abc"


def test_an_archive_that_holds_another_count_of_files_than_was_submitted_is_refused(tmp_path: Path) -> None:
    said = refuse(write_raw(tmp_path, SOUND), files=2)
    assert "holds 1 files, the job was submitted with 2" in said


UNMADE: dict[str, tuple[Fill, str]] = {
    "a folder in the place of a file": (
        lambda archive: (add_file(archive, "a"), add_link(archive, "a", "", tarfile.DIRTYPE)),
        "'a' cannot be made: a file stands in the place of a folder",
    ),
    "a file in the place of a folder": (
        lambda archive: (add_file(archive, "a/b"), add_file(archive, "a")),
        "'a' cannot be made: Is a directory",
    ),
    "a file below a file": (
        lambda archive: (add_file(archive, "a"), add_file(archive, "a/b")),
        "'a/b' cannot be made: a file stands in the place of a folder",
    ),
    "a file deep below a file": (
        lambda archive: (add_file(archive, "a"), add_file(archive, "a/b/c")),
        "'a/b/c' cannot be made: a file stands in the place of a folder",
    ),
    "a link in the place of a file": (
        lambda archive: (add_file(archive, "a"), add_link(archive, "a", "b")),
        "'a' cannot be made: File exists",
    ),
    "a name without end": (lambda archive: add_file(archive, "n" * 300), "cannot be made: File name too long"),
    "a target without end": (lambda archive: add_link(archive, "a", "n" * 5000), "cannot be made: File name too long"),
    "a name with a zero": (
        lambda archive: add_file(archive, "z", b"", {"path": "a\0b"}),
        "cannot be made: embedded null byte",
    ),
    "folders without end": (lambda archive: add_file(archive, "d/" * 2500 + "x"), "lies 2501 folders deep"),
    "a link below folders without end": (lambda archive: add_link(archive, "d/" * 1500 + "x", "y"), "folders deep"),
}


@pytest.mark.parametrize("what", UNMADE)
def test_what_cannot_be_made_is_refused_by_the_members_name(tmp_path: Path, what: str) -> None:
    fill, said = UNMADE[what]
    message = refuse(write(tmp_path, fill))
    assert said in message
    assert len(message) < 500


def test_a_stop_is_heeded_between_two_pieces(tmp_path: Path) -> None:
    path = write_raw(tmp_path, header("big", 8 << 20), b"\0" * (8 << 20), END)
    target, pieces = tmp_path / "work", []

    def check() -> None:
        pieces.append(target.joinpath("big").stat().st_size)
        if len(pieces) == 4:
            raise Interrupted

    target.mkdir()
    with tarfile.open(path) as archive, path.open("rb") as raw, pytest.raises(Interrupted):
        workspace._Tree(str(target), check).take(archive.getmembers()[0], raw)
    assert pieces == [0, 1 << 20, 2 << 20, 3 << 20]


def test_a_stop_is_heeded_while_the_archive_is_read(tmp_path: Path) -> None:
    def check() -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        unpack(write_raw(tmp_path, SOUND, END), check=check)


def test_an_attempt_whose_archive_lacks_files_does_not_start(attempt: Attempt) -> None:
    workspace = pack(attempt.root / "workspace.tar", {"a": "1"})
    spec = {"spec": {"workspace": {"files": 2}}}
    attempt.prepare("touch", str(attempt.root / "started"), workspace=workspace, spec=spec)

    assert attempt.run() == contract.EXIT_CAPSULE_CHANGED
    assert attempt.record().reason == "workspace"
    assert "holds 1 files" in (attempt.record().message or "")
    assert not (attempt.root / "started").exists()


@pytest.mark.parametrize(
    ("files", "inputs", "said"),
    [
        (
            {"config.resolved.json/x": "1"},
            {},
            "the file config.resolved.json cannot be made in the work directory: Is a",
        ),
        (
            {"data": "1"},
            {"data/set": "/x"},
            "the input data/set cannot be made in the work directory: File",
        ),
        ({"data": "1"}, {"data": "/x"}, "the input data is already a file of the workspace: rename one"),
    ],
)
def test_what_stands_in_the_place_of_a_file_of_ours_is_told_by_its_name(
    attempt: Attempt, files: dict[str, str], inputs: dict[str, str], said: str
) -> None:
    attempt.prepare("true", workspace=pack(attempt.root / "workspace.tar", files), inputs=inputs)
    assert attempt.run() == contract.EXIT_REQUIREMENTS
    message = attempt.record().message or ""
    assert said in message
    assert str(attempt.root) not in message


ON_ANOTHER_PYTHON = """
import json, sys
sys.path.insert(0, sys.argv[1])
from starforge.contract.capsule import Workspace
from starforge.runner.endings import Refusal
from starforge.runner.workspace import unpack_workspace
said = {}
for what, (path, digest) in json.load(sys.stdin).items():
    try:
        unpack_workspace(Workspace(path, digest), path + ".work", None, lambda: None)
        said[what] = "unpacked"
    except Refusal as refused:
        said[what] = refused.message
print(json.dumps(said))
"""


def fill_sparse(records: dict[str, str]) -> Fill:
    return lambda tar: add_file(tar, "hole", b"x", records)


EVERYWHERE: dict[str, tuple[Fill | tuple[bytes, ...], str]] = {
    **{f"damage: {what}": row for what, row in DAMAGED.items()},
    **{f"unmade: {what}": row for what, row in UNMADE.items()},
    **{f"sparse: {what}": (fill_sparse(records), "sparse") for what, records in SPARSE.items()},
    "sound": ((SOUND, END), "unpacked"),
}


@pytest.mark.interpreters
@pytest.mark.parametrize("interpreter", find_interpreters())
def test_every_python_refuses_and_takes_the_same(tmp_path: Path, interpreter: str) -> None:
    laid = {}
    for number, (what, (content, _)) in enumerate(EVERYWHERE.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write_raw(folder, *content) if isinstance(content, tuple) else write(folder, content)
        laid[what] = (str(path), hash_of(path))
    command = [interpreter, "-c", ON_ANOTHER_PYTHON, str(CORE)]
    ran = subprocess.run(command, input=json.dumps(laid), capture_output=True, text=True, check=True, timeout=60)
    said = json.loads(ran.stdout)
    assert {what: said[what] for what, (_, part) in EVERYWHERE.items() if part not in said[what]} == {}
