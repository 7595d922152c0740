import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.tests.workspace.trees import commit_tree, write_tree
from starforge.errors import PackError
from starforge.workspace.manifest import Manifest, load_manifest
from starforge.workspace.pack import Packed, build_header, check_manifest, pack_manifest

HARD_NAMES = [
    "-rf", " lead", "trail ", "new\nline", "tab\there", "quo'te", 'dou"ble', "glob*", "back\\slash", "\x01ctl",
    "e\u0301.txt", "\u00e9.txt", "中文/数据.json", "😀.py", "d/" * 100 + "deep.py", "n" * 255,
]  # fmt: skip


def pack(root: Path) -> tuple[Packed, bytes]:
    sink = io.BytesIO()
    packed = pack_manifest(load_manifest(root), sink)
    return packed, sink.getvalue()


def pack_many_times(manifest: Manifest) -> None:
    for _ in range(2000):
        pack_manifest(manifest)


def build(root: Path) -> Path:
    return write_tree(root, {"train.sh": "#!/bin/sh\n", "a/b.py": "x = 1\n", "ö/é.txt": "x", "starforge.yaml": "x"})


def test_the_digest_is_that_of_the_plain_tar(tmp_path: Path) -> None:
    packed, content = pack(build(tmp_path))
    assert packed.digest == "sha256:" + hashlib.sha256(content).hexdigest()
    assert packed.bytes == len(content)
    assert packed == pack_manifest(load_manifest(tmp_path))


@given(
    name=st.text(st.characters(min_codepoint=1, max_codepoint=300, exclude_characters="/"), min_size=1, max_size=130),
    size=st.integers(0, 1 << 36),
    executable=st.booleans(),
)
@example(name="n" * 100, size=(1 << 33) - 1, executable=False)
@example(name="n" * 101, size=1 << 33, executable=True)
def test_every_header_is_the_one_that_tarfile_writes(name: str, size: int, *, executable: bool) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o755 if executable else 0o644
    assert build_header(name, size, member.mode) == member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def test_path_times_modes_umask_and_locale_do_not_change_the_digest(tmp_path: Path) -> None:
    first = pack(build(tmp_path / "one"))[0]
    second = build(tmp_path / "some where/else")
    for file in second.rglob("*"):
        os.utime(file, (1, 1))
    (second / "a/b.py").chmod(0o600)
    (second / "train.sh").chmod(0o700)
    program = (
        "import os, sys; os.umask(0o077)\n"
        "from pathlib import Path\n"
        "from starforge.workspace.manifest import Manifest, load_manifest\n"
        "from starforge.workspace.pack import pack_manifest\n"
        "print(pack_manifest(load_manifest(Path(sys.argv[1]))).digest)\n"
    )
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "POSIX", "TZ": "Asia/Shanghai", "PYTHONUTF8": "0"}
    argv = [sys.executable, "-c", program, str(second)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == first.digest


def test_content_name_and_executable_bit_change_the_digest(tmp_path: Path) -> None:
    root = build(tmp_path)
    digests = {pack(root)[0].digest}
    (root / "a/b.py").chmod(0o755)
    digests.add(pack(root)[0].digest)
    (root / "a/b.py").write_text("x = 2\n")
    digests.add(pack(root)[0].digest)
    (root / "a/b.py").rename(root / "a/c.py")
    digests.add(pack(root)[0].digest)
    assert len(digests) == 4


def test_the_digest_is_pinned(tmp_path: Path) -> None:
    write_tree(tmp_path, {"run.sh": "echo\n", "é" * 60 + ".txt": "long and not ASCII\n"})
    (tmp_path / "link").symlink_to("run.sh")
    expected = "sha256:1e9cee60f59eaefe333dfb983b59f764ff5001eea95a866b6f81b3e303b42bc9"
    assert pack(tmp_path)[0].digest == expected


def test_every_hard_name_arrives_as_it_was(tmp_path: Path) -> None:
    names = [*HARD_NAMES, os.fsdecode(b"not-utf8-\xff")]
    write_tree(tmp_path / "p", {name: name.encode(errors="surrogateescape") for name in names})
    _, content = pack(tmp_path / "p")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:  # by hand: the filters of extractall are younger than the oldest Python that is served
            file, content_of = tmp_path / "out" / member.name, tar.extractfile(member)
            assert content_of is not None
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content_of.read())
    found = {os.fsencode(p.relative_to(tmp_path / "out")) for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert found == {os.fsencode(name) for name in names}
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == os.fsencode(name)


def test_members_are_sorted_and_say_nothing_of_who_packed_them(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "link").symlink_to("a/b.py")
    packed, content = pack(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == [file.path for file in packed.files]
    assert [m.name.encode() for m in members] == sorted(m.name.encode() for m in members)
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert {m.name: m.mode for m in members if m.isfile()}["train.sh"] == 0o755
    assert {m.name: m.linkname for m in members if m.issym()} == {"link": "a/b.py"}


def test_a_hard_link_travels_as_a_file(tmp_path: Path) -> None:
    build(tmp_path)
    os.link(tmp_path / "a/b.py", tmp_path / "hard.py")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path)[1])) as tar:
        assert tar.getmember("hard.py").isreg()


@pytest.mark.parametrize("size", [1000, (8 << 20) + 512])
def test_a_file_that_changes_each_time_it_is_read_is_refused_by_name(tmp_path: Path, size: int) -> None:
    write_tree(tmp_path, {"a.py": "x", "grow.log": b"x" * size})
    manifest = load_manifest(tmp_path)
    done = threading.Event()

    def grow() -> None:
        with (tmp_path / "grow.log").open("ab", buffering=0) as file:
            while not done.is_set():
                file.write(b"y" * 100)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with pytest.raises(PackError, match=r"grow\.log changes while it is read"):
            pack_many_times(manifest)  # a small file may be read between two writes
    finally:
        done.set()
        writer.join()


def test_a_file_that_grew_before_it_was_read_is_packed_as_it_is_then(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.log": "one"})
    manifest = load_manifest(tmp_path)
    write_tree(tmp_path, {"a.log": "one and two"})
    assert pack_manifest(manifest).files[0].bytes == 11


def test_a_file_that_vanished_is_named(tmp_path: Path) -> None:
    write_tree(tmp_path, {"my data.py": "x"})
    manifest = load_manifest(tmp_path)
    (tmp_path / "my data.py").unlink()
    with pytest.raises(PackError, match=r"my data\.py cannot be read") as caught:
        pack_manifest(manifest)
    assert caught.value.path == "my data.py"


def test_a_file_that_became_a_link_or_a_fifo_is_never_followed_nor_waited_for(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x", "b.py": "x"})
    manifest = load_manifest(tmp_path)
    (tmp_path / "b.py").unlink()
    os.mkfifo(tmp_path / "b.py")
    with pytest.raises(PackError, match=r"b\.py"):
        pack_manifest(manifest)
    (tmp_path / "a.py").unlink()
    (tmp_path / "a.py").symlink_to("/etc/passwd")
    with pytest.raises(PackError, match=r"a\.py"):
        pack_manifest(manifest)


def test_a_workspace_over_the_limit_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"f{n:02}.bin": b"x" * n for n in range(20)})
    with pytest.raises(PackError) as caught:
        check_manifest(load_manifest(tmp_path), limit_bytes=100)
    assert caught.value.why.count(".bin") == 10
    assert caught.value.why.index("f19.bin") < caught.value.why.index("f10.bin")
    assert caught.value.what == "the workspace has 190 B, 100 B are allowed"
    assert ".sfignore" in caught.value.next_step
    assert "pack_limit_mib in starforge.yaml" in caught.value.next_step


def test_refused_paths_and_an_empty_project_stop_packing(tmp_path: Path) -> None:
    with pytest.raises(PackError, match="no file"):
        check_manifest(load_manifest(tmp_path))
    write_tree(tmp_path, {"a.py": "x", ".env": "T=1"})
    with pytest.raises(PackError, match=r"\.env"):
        check_manifest(load_manifest(tmp_path))


def test_packing_takes_the_same_bytes_from_a_commit_and_from_a_plain_copy(tmp_path: Path) -> None:
    commit_tree(build(tmp_path / "repo"))
    assert pack(tmp_path / "repo")[0].digest == pack(build(tmp_path / "copy"))[0].digest


def test_the_manifest_may_be_packed_again_and_progress_counts_the_content(tmp_path: Path) -> None:
    manifest = load_manifest(build(tmp_path))
    seen: list[int] = []
    first = pack_manifest(manifest, None, seen.append)
    assert sum(seen) == manifest.content_bytes
    assert pack_manifest(replace(manifest)).digest == first.digest
    assert json.dumps([file.to_json() for file in first.files])
