"""`sf job artifacts`, `sf job get` and `sf admin gc` against a console that listens."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from server.tests.retention.yard import Yard, open_yard
from server.tests.web.cutting import cutting
from server.tests.web.serving import Served, serving
from starforge.cli.main import main
from starforge_console.ledger.endings import note_finalised


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out.splitlines()[-1])  # the console logs in the same process


Sf = Callable[..., Ended]


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    (tmp_path / "console").mkdir()
    with open_yard(tmp_path / "console") as made:
        yield made


@pytest.fixture
def served(yard: Yard) -> Iterator[Served]:
    with serving(yard.console) as running:
        yield running


@pytest.fixture
def sf(
    yard: Yard, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Sf:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SF_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("SF_SERVER", f"http://127.0.0.1:{served.ports.api_port}")
    monkeypatch.setenv("SF_TOKEN", yard.headers["Authorization"].removeprefix("Bearer "))

    def run(*words: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return run


def test_the_outputs_of_a_job_are_listed_and_come_whole(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    (yard.out(job) / "adapter").mkdir()
    (yard.out(job) / "adapter" / "weights.bin").write_bytes(b"x" * 100)
    listed = sf("job", "artifacts", job, "--json").json
    assert [(one["name"], one["kind"]) for one in listed["items"]] == [("adapter", "folder"), ("model.bin", "file")]
    assert "model.bin" in sf("job", "artifacts", job).out
    assert [one["name"] for one in sf("job", "artifacts", job, "adapter", "--json").json["items"]] == ["weights.bin"]
    answer = sf("job", "get", job, "--json").json
    assert [(one["path"], one["bytes"], one["saved"]) for one in answer["files"]] == [
        ("out/adapter/weights.bin", 100, True),
        ("out/model.bin", 7, True),
    ]
    assert Path("out/adapter/weights.bin").read_bytes() == b"x" * 100
    assert sorted(path.name for path in Path("out").iterdir()) == ["adapter", "model.bin"]


def test_links_are_left_out_and_named(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    (yard.out(job) / "newest").symlink_to("model.bin")
    (yard.out(job) / "adapter").mkdir()
    for number in range(6):
        (yard.out(job) / "adapter" / f"link-{number}").symlink_to("../model.bin")
    told = sf("job", "get", job)
    assert told.code == 0
    assert "left out, for links are not followed: out/adapter/link-0, out/adapter/link-1" in told.err
    assert "and 2 more" in told.err
    answer = sf("job", "get", job, "--json").json
    assert answer["left_out"] == [*(f"out/adapter/link-{number}" for number in range(6)), "out/newest"]
    assert "left out" not in sf("job", "get", job, "model.bin").err


def test_one_file_comes_to_the_folder_that_is_named(yard: Yard, sf: Sf, tmp_path: Path) -> None:
    job, _ = yard.end()
    assert sf("job", "get", job, "model.bin", "--to", str(tmp_path / "there")).code == 0
    assert (tmp_path / "there" / "model.bin").read_bytes() == b"weights"


def test_the_newest_checkpoint_comes_or_that_of_a_step(yard: Yard, sf: Sf) -> None:
    job, attempt = yard.end(steps=(10, 20))
    left = [{"step": step, "path": f"ckpt/step-{step}", "committed": True, "bytes": step} for step in (10, 20)]
    outputs = {"artifacts": [], "checkpoints": left}
    yard.console.ledger.write_now(lambda c: note_finalised(c, attempt, 1.0, outputs, 6))
    assert sf("job", "get", job, "checkpoint").code == 0
    assert Path("step-20/model.bin").read_bytes() == b"w" * 20
    assert sf("job", "get", job, "checkpoint@step=10").code == 0
    assert Path("step-10/model.bin").read_bytes() == b"w" * 10
    none = sf("job", "get", job, "checkpoint@step=30")
    assert (none.code, "committed are 10, 20" in none.err) == (1, True)


def test_nothing_is_written_over_unless_it_is_asked_for(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    Path("model.bin").write_bytes(b"mine, and not to be lost")
    refused = sf("job", "get", job, "model.bin")
    assert (refused.code, "would be written over" in refused.err) == (1, True)
    assert Path("model.bin").read_bytes() == b"mine, and not to be lost"
    assert sf("job", "get", job, "model.bin", "--force").code == 0
    assert Path("model.bin").read_bytes() == b"weights"


def test_what_is_here_already_does_not_come_again(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    sf("job", "get", job, "model.bin")
    again = sf("job", "get", job, "model.bin")
    assert (again.code, "1 file was here already" in again.err) == (0, True)


def test_a_download_that_is_cut_goes_on_where_it_was(
    yard: Yard, served: Served, sf: Sf, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = yard.end()
    content = os.urandom(3 << 20)
    (yard.out(job) / "large.bin").write_bytes(content)
    with cutting(served.ports.api_port, [1_000_000, 700_000]) as way:
        monkeypatch.setenv("SF_SERVER", f"http://127.0.0.1:{way.port}")
        assert sf("job", "get", job, "large.bin").code == 0
        assert way.cuts == []
    assert Path("large.bin").read_bytes() == content


def test_a_later_call_goes_on_with_what_an_earlier_one_had(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    content = os.urandom(200_000)
    (yard.out(job) / "large.bin").write_bytes(content)
    tag = yard.console.client(yard.headers).head(f"/api/v1/jobs/{job}/file?path=out/large.bin").headers["etag"]
    Path("large.bin.sf-part").write_bytes(content[:150_000])
    Path("large.bin.sf-tag").write_text(tag)
    assert sf("job", "get", job, "large.bin").code == 0
    assert Path("large.bin").read_bytes() == content
    assert sorted(path.name for path in Path().iterdir()) == ["large.bin"]


def test_what_an_earlier_call_had_of_another_file_is_not_gone_on_with(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    content = os.urandom(200_000)
    (yard.out(job) / "large.bin").write_bytes(content)
    Path("large.bin.sf-part").write_bytes(b"other" * 1000)
    Path("large.bin.sf-tag").write_text('"of-another"')
    assert sf("job", "get", job, "large.bin").code == 0
    assert Path("large.bin").read_bytes() == content


def test_a_file_that_is_not_what_the_job_told_is_refused(yard: Yard, sf: Sf) -> None:
    job, attempt = yard.end()
    told = {"artifacts": [{"path": "model.bin", "bytes": 7, "sha256": hashlib.sha256(b"xxxxxxx").hexdigest()}]}
    yard.console.ledger.write_now(lambda c: note_finalised(c, attempt, 1.0, told | {"checkpoints": []}, 6))
    refused = sf("job", "get", job, "model.bin")
    assert (refused.code, "is not what was listed" in refused.err) == (1, True)
    assert list(Path().iterdir()) == []


def test_what_is_not_there_is_told(yard: Yard, sf: Sf) -> None:
    job, _ = yard.end()
    missing = sf("job", "get", job, "absent.bin")
    assert (missing.code, f"job {job} has no 'out/absent.bin'" in missing.err) == (1, True)


def test_gc_lists_and_removes_nothing_until_it_is_told_to(yard: Yard, sf: Sf) -> None:
    job, attempt = yard.end()
    yard.later(8)
    told = sf("admin", "gc")
    assert (told.code, f"{job} attempt 1" in told.out, "to remove it now: sf admin gc --apply" in told.err) == (
        0,
        True,
        True,
    )
    assert (yard.layout(attempt).root / "work").exists()
    answer = sf("admin", "gc", "--json").json
    assert (answer["applied"], answer["total_bytes"], answer["items"][0]["kind"]) == (False, 13, "work")
    assert sf("admin", "gc", "--apply", "--json").json["applied"] is True
    assert not (yard.layout(attempt).root / "work").exists()
    assert "nothing would go" in sf("admin", "gc").out


def test_a_hold_keeps_gc_from_removing_until_it_is_released(yard: Yard, sf: Sf) -> None:
    yard.end()
    yard.later(8)
    held = sf("admin", "gc", "--hold", "2", "--why", "backup")
    assert "nothing is removed until" in held.err
    assert "ada holds the collector until" in sf("admin", "gc").err
    refused = sf("admin", "gc", "--apply")
    assert (refused.code, "nothing is removed now" in refused.err) == (1, True)
    assert held.out.splitlines()[-1] in refused.err, "what to release"
    assert sf("admin", "gc", "--release").code == 0
    assert "1 thing removed" in sf("admin", "gc", "--apply").out


def test_one_hold_is_released_by_its_name_and_all_others_stand(yard: Yard, sf: Sf) -> None:
    first, second = (sf("admin", "gc", "--hold", "2", "--why", why).out.splitlines()[-1] for why in ("one", "two"))
    assert first != second
    assert sf("admin", "gc", "--release", first).code == 0
    assert [one["id"] for one in sf("admin", "gc", "--json").json["holds"]] == [second]
    operator = yard.console.add_user("op", "operator")
    client = yard.console.client(operator)
    assert client.delete("/api/v1/admin/gc/hold").status_code == 204, "op took none"
    assert [one["id"] for one in sf("admin", "gc", "--json").json["holds"]] == [second]
    assert client.delete("/api/v1/admin/gc/hold", params={"id": second}).status_code == 204
    assert sf("admin", "gc", "--json").json["holds"] == []


def test_gc_is_for_administrators(yard: Yard, sf: Sf, monkeypatch: pytest.MonkeyPatch) -> None:
    member = yard.console.add_user("bob")["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("SF_TOKEN", member)
    for words in ((), ("--apply",), ("--hold", "1"), ("--release",)):
        refused = sf("admin", "gc", *words)
        assert (refused.code, "admin" in refused.err) == (1, True)


def test_two_things_at_once_are_refused(sf: Sf) -> None:
    assert sf("admin", "gc", "--apply", "--release").code == 2
