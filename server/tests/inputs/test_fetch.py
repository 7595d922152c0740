"""The process that fetches: whole or not at all, on from where it was cut, and silent about the token."""

import asyncio
import fcntl
import os
import signal
import sys
from pathlib import Path

from e2e.support.console import wait_for
from e2e.support.hub import COMMIT, HubServer, Repo, serve_hub
from starforge_console.inputs.fetch import Fetched, NeverThere, NotYet, Ready, fetch
from starforge_console.inputs.fetch_process import Wanted

LARGE = os.urandom(300_000)
FILES = {"config.json": b"{}", "sub/folder/weights.bin": LARGE, "empty": b""}
TOKEN = "hf_" + "x" * 30


def wish(server: HubServer, folder: Path, token: str | None = None, kind: str = "model") -> Wanted:
    place = folder / "cache" / COMMIT
    place.parent.mkdir(exist_ok=True)
    return Wanted(endpoint=server.endpoint, kind=kind, repo="a/b", commit=COMMIT, folder=str(place), token=token)


def run(wanted: Wanted, stall_s: float = 60.0) -> Fetched:
    return asyncio.run(fetch(wanted, stall_s, lambda _done, _of: None))


def held(folder: Path) -> dict[str, bytes]:
    root = folder / "cache" / COMMIT
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_snapshot_arrives_whole_readable_for_the_jobs_user_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    with serve_hub(datasets_a_b=Repo(FILES)) as server:
        assert run(wish(server, tmp_path, kind="dataset")) == Ready()
    assert held(tmp_path) == FILES
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [COMMIT]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "cache" / COMMIT).rglob("*")} == {0o755, 0o644}


def test_a_download_that_is_cut_in_the_middle_goes_on_from_there(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.cut_after["sub/folder/weights.bin"] = [100_000]
        assert run(wish(server, tmp_path)) == Ready()
        assert server.downloads("weights.bin") == [None, "bytes=65536-"]
    assert held(tmp_path) == FILES


def test_a_process_that_was_killed_is_followed_by_one_that_goes_on_with_the_same_bytes(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.held.add("sub/folder/weights.bin")
        assert run(wish(server, tmp_path), stall_s=8.0) == NotYet("nothing arrived for 8 s")
        assert held(tmp_path) == {}
        server.held.clear()
        assert run(wish(server, tmp_path)) == Ready()
        assert server.downloads("weights.bin")[-1] == "bytes=131072-"
        assert len(server.downloads("config.json")) == 1
    assert held(tmp_path) == FILES


def test_bytes_that_are_not_those_the_hub_names_are_thrown_away(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.spoilt["sub/folder/weights.bin"] = bytes(len(LARGE))
        outcome = run(wish(server, tmp_path))
        assert isinstance(outcome, NotYet)
        assert "another digest" in outcome.why
        server.spoilt.clear()
        assert run(wish(server, tmp_path)) == Ready()
        assert server.downloads("weights.bin")[-1] is None


def test_a_body_that_has_no_end_takes_no_more_room_than_the_file_has(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.endless.add("sub/folder/weights.bin")
        outcome = run(wish(server, tmp_path))
        assert isinstance(outcome, NotYet)
        assert "longer than the 300000 bytes" in outcome.why
        kept = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        assert kept <= sum(map(len, FILES.values()))
        server.endless.clear()
        assert run(wish(server, tmp_path)) != Ready()  # what had arrived was not the file: it is thrown away
        assert run(wish(server, tmp_path)) == Ready()
    assert held(tmp_path) == FILES


def test_a_repository_that_names_one_file_twice_is_refused(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo({"a/b": b"x", "a/./b": b"y"})) as server:
        outcome = run(wish(server, tmp_path))
    assert outcome == NeverThere("the repository names one file twice")


def test_of_two_processes_that_fetch_the_same_one_stays_away(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES)) as server:
        building = tmp_path / "cache" / f".{COMMIT}.fetching"
        building.mkdir(parents=True)
        with (building / "lock").open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            assert run(wish(server, tmp_path)) == NotYet(f"another process is fetching it: {building}")
        assert server.downloads("config.json") == []
        assert run(wish(server, tmp_path)) == Ready()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [COMMIT]


def test_a_name_that_no_disk_takes_is_told_in_few_words(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo({"x" * 200_000: b""})) as server:
        outcome = run(wish(server, tmp_path))
    assert isinstance(outcome, NotYet)
    assert outcome.why.startswith("File name too long")
    assert len(outcome.why) <= 1000


def test_what_can_never_be_had_is_told_from_what_may_be_had_later(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES, gated=True)) as server:
        outcome = run(wish(server, tmp_path))
        assert isinstance(outcome, NeverThere)
        assert outcome.why.startswith("gated: 403")
        server.repos.clear()
        assert isinstance(run(wish(server, tmp_path)), NeverThere)
        server.proxy_status = 403
        blocked = run(wish(server, tmp_path))
    assert isinstance(blocked, NotYet)
    assert blocked.why.startswith("blocked")


def test_a_repository_whose_files_would_lead_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo({"../../escaped": b"x"})) as server:
        outcome = run(wish(server, tmp_path))
    assert isinstance(outcome, NeverThere)
    assert not (tmp_path / "escaped").exists()


def test_the_token_goes_to_the_hub_and_into_no_argument_no_environment_and_no_repr(tmp_path: Path) -> None:
    async def go(server: HubServer) -> tuple[bytes, bytes]:
        wanted = wish(server, tmp_path, TOKEN)
        assert TOKEN not in repr(wanted)
        fetching = asyncio.create_task(fetch(wanted, 60.0, lambda _done, _of: None))
        await asyncio.to_thread(server.reached.wait, 30)
        child = find_child(os.getpid())
        seen = read_process(child, "cmdline"), read_process(child, "environ")
        server.hold.set()
        assert await fetching == Ready()
        return seen

    with serve_hub(models_a_b=Repo(FILES, token=TOKEN)) as server:
        server.held.add("sub/folder/weights.bin")
        arguments, environment = asyncio.run(go(server))
        assert {signed for _, _, signed, _ in server.requests} == {TOKEN}
    assert b"fetch_process" in arguments
    assert TOKEN.encode() not in arguments + environment
    assert held(tmp_path) == FILES


def test_a_hub_that_repeats_the_token_in_its_error_tells_it_to_nobody(tmp_path: Path) -> None:
    with serve_hub(models_a_b=Repo(FILES, gated=True)) as server:
        server.echoes = True
        outcome = run(wish(server, tmp_path, TOKEN))
    assert isinstance(outcome, NeverThere)
    assert outcome.why.endswith("restricted (Bearer ***)")


def test_the_process_ends_with_the_console(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\nfrom starforge_console.inputs.fetch import fetch\n"
        "from starforge_console.inputs.fetch_process import Wanted\n"
        "wanted = Wanted(**__import__('json').loads(sys.argv[1]))\n"
        "asyncio.run(fetch(wanted, 60.0, lambda done, of: None))"
    )

    async def go(server: HubServer) -> None:
        line = wish(server, tmp_path).to_line().decode()
        console = await asyncio.create_subprocess_exec(sys.executable, "-c", program, line)
        await asyncio.to_thread(server.reached.wait, 30)
        child = find_child(console.pid)
        console.send_signal(signal.SIGKILL)
        await console.wait()
        await asyncio.to_thread(wait_for, lambda: not lives(child) or None, "the end of the process", 20)

    with serve_hub(models_a_b=Repo(FILES)) as server:
        server.held.add("sub/folder/weights.bin")
        asyncio.run(go(server))


def find_child(process: int) -> str:
    """The one child of a process that fetches."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    (child,) = [one for one in children if b"fetch_process" in read_process(one, "cmdline")]
    return child


def read_process(process: str, name: str) -> bytes:
    return Path(f"/proc/{process}/{name}").read_bytes()


def lives(process: str) -> bool:
    try:
        return read_process(process, "stat").rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
