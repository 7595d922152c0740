"""Scripts that break, flood, kill, fill and forge: each job ends with a reason, and takes nobody with it."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import pytest

from e2e.badinput.yard import SCRIPT, Yard, add
from e2e.support.console import wait_for
from e2e.support.engines import PrivateEngine

pytestmark = pytest.mark.engine

MEBIBYTE: Final = 1 << 20
ATTEMPT: Final = "A=$(cd ../../..; pwd)\n"
"""The attempt's own folder, which the job may write to."""

FORGERIES: Final = {
    "its log is a link": 'rm -f "$A/spool/log.bin"; ln -s /etc/passwd "$A/spool/log.bin"',
    "its spool is a link": 'mv "$A/spool" "$A/gone"; ln -s /etc "$A/spool"',
    "its spool is gone": 'rm -rf "$A/spool"',
    "its events are a pipe": 'rm -f "$A/spool/events.jsonl"; {pipe} "$A/spool/events.jsonl"',
    "its metrics are a pipe": 'rm -f "$A/spool/metrics.jsonl"; {pipe} "$A/spool/metrics.jsonl"',
    "its log is a pipe": 'rm -f "$A/spool/log.bin"; {pipe} "$A/spool/log.bin"',
    "its exit record is a pipe": '{pipe} "$A/exit.json"',
    "its exit record is a link": 'ln -s /etc/passwd "$A/exit.json"',
    "its exit record is a folder": 'mkdir "$A/exit.json"; touch "$A/exit.json/x"',
    "its wishes are a link": 'rm -f "$A/control.json"; ln -s /dev/zero "$A/control.json"',
    "its checkpoints are a link": 'rm -rf "$A/ckpt"; ln -s / "$A/ckpt"',
    "its own folder is closed": 'chmod 000 "$A"',
    "its outputs and checkpoints are closed": 'chmod 000 "$FORGE_OUT_DIR" "$FORGE_CKPT_DIR"',
    "its outputs hold a link to everything": 'ln -s / "$FORGE_OUT_DIR/all"; {pipe} "$FORGE_OUT_DIR/pipe"',
}
PIPE: Final = "python3 -c 'import os, sys; os.mkfifo(sys.argv[1])'"


def test_a_script_that_exits_3_is_told_so(yard: Yard) -> None:
    job, detail = yard.run("echo going; exit 3")
    assert (detail["job"]["state"], detail["attempts"][0]["exit_code"]) == ("FAILED", 3)
    assert "3" in detail["job"]["note"]
    assert "exit 3" in yard.console.sf("job", "show", job, cwd=yard.probe.project).stdout


def test_a_script_that_kills_itself_is_told_the_signal(yard: Yard) -> None:
    _, detail = yard.run("kill -9 $$")
    assert (detail["job"]["state"], detail["job"]["reason"]) == ("FAILED", "exited_nonzero")
    assert detail["attempts"][0]["exit_code"] == 137
    assert "9" in detail["job"]["note"] or "137" in detail["job"]["note"]


def test_ten_megabytes_without_an_end_of_line_all_arrive(yard: Yard) -> None:
    job, detail = yard.run("head -c 10000000 /dev/zero | tr '\\0' x")
    assert detail["log"]["received_bytes"] == detail["log"]["produced_bytes"] == 10_000_000
    assert yard.probe.log(job, "--raw") == "x" * 10_000_000
    shown = yard.probe.log(job)
    assert len(shown) < 20_000
    assert "bytes" in shown.replace("x", "")


def test_bytes_that_are_no_text_arrive_and_are_shown_as_signs(yard: Yard) -> None:
    job, detail = yard.run(r"printf 'a\xff\xfe\x00b\033]0;title\007c\u202ed\n'")
    assert detail["log"]["received_bytes"] == detail["log"]["produced_bytes"] > 0
    shown = yard.probe.log(job)
    assert shown.startswith("a\ufffd\ufffd")
    assert not {"\0", "\033", "\u202e"} & set(shown)


def test_a_thousand_children_end_with_the_job(yard: Yard, machine: PrivateEngine) -> None:
    job, detail = yard.run("for i in {1..1000}; do sleep 7654 & done; echo forked", limit_s=90)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "forked\n"
    assert "7654" not in machine.run("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")


def test_what_is_not_the_jobs_cannot_be_written(yard: Yard) -> None:
    targets = '/etc/x /usr/x "$FORGE_OUT_DIR/../x" "$A/../x" "$A/../../x" "$A/.starforge/x" "$A/.starforge/capsule/x"'
    targets += " /run/starforge/x /opt/starforge/x /opt/starforge/workspace.tar"
    job, detail = yard.run(
        ATTEMPT + f"for t in {targets}; do (echo x >> $t) 2>/dev/null && echo wrote $t; done; echo no"
    )
    assert detail["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "no\n"


def test_other_jobs_files_are_not_to_be_seen(yard: Yard) -> None:
    other, _ = yard.run("echo mine > $FORGE_OUT_DIR/mine")
    assert (yard.out(other) / "mine").exists()
    job, _ = yard.run('ls "$FORGE_OUT_DIR/../.."')
    assert yard.probe.log(job) == f"{job}\n"


def test_a_job_over_its_memory_is_told_so(yard: Yard) -> None:
    hog = b"echo begun; exec python3 -c 'x = bytearray(1 << 30); print(len(x))'\n"
    spec = yard.spec_with(yard.upload(lambda tar: add(tar, SCRIPT, hog)))
    spec["spec"]["resources"]["pools"][0]["memory_bytes"] = 128 * MEBIBYTE
    job = str(yard.send(spec).body["job"])
    detail = yard.probe.wait_end(job)
    assert (detail["job"]["state"], detail["job"]["reason"]) == ("FAILED", "out_of_memory")
    assert "memory" in detail["job"]["note"]
    assert yard.probe.log(job) == "begun\n"


@pytest.fixture(scope="module")
def forging(shared_yard: Yard) -> Iterator[Mapping[str, str]]:
    """The job of each forgery."""

    def begin(forgery: str) -> str:
        return shared_yard.begin(f"echo before\n{ATTEMPT}{forgery.format(pipe=PIPE)}\necho after")

    with shared_yard.batch({what: partial(begin, forgery) for what, forgery in FORGERIES.items()}) as jobs:
        yield jobs


@pytest.mark.parametrize("what", list(FORGERIES))
def test_a_job_that_forges_its_own_record_still_ends_and_no_file_of_others_is_read(
    shared_yard: Yard, forging: Mapping[str, str], what: str
) -> None:
    yard, job = shared_yard, forging[what]
    detail = yard.probe.wait_end(job)
    assert detail["job"]["state"] in {"SUCCEEDED", "FAILED"}
    assert detail["job"]["note"]
    assert "root:" not in yard.probe.log(job)
    outputs = yard.console.get(f"/api/v1/jobs/{job}/outputs", yard.probe.token)
    assert [one["path"] for one in outputs["artifacts"]] == []


@pytest.mark.parametrize(("code", "state"), [(0, "SUCCEEDED"), (3, "FAILED")])
def test_a_job_that_closes_its_own_folder_ends_as_it_did_and_runs_once(yard: Yard, code: int, state: str) -> None:
    job, detail = yard.run(f'{ATTEMPT}id -u; chmod 000 "$FORGE_OUT_DIR" "$A"; exit {code}')
    assert (detail["job"]["state"], detail["job"]["retry_at"], len(detail["attempts"])) == (state, None, 1)
    if yard.probe.log(job).strip() != "0":
        assert any("out cannot be listed whole (.: Permission denied)" in event["note"] for event in detail["events"])


@pytest.mark.parametrize("forgery", ["true", 'rm -f "$A/control.json"; {pipe} "$A/control.json"'])
def test_a_job_is_ended_at_its_limit_whatever_lies_in_the_place_of_its_wishes(yard: Yard, forgery: str) -> None:
    script = ATTEMPT + forgery.format(pipe=PIPE) + "\ntrap '' TERM; while :; do sleep 1; done"
    _, detail = yard.run(script, "--max-runtime", "2", "--set", "lifecycle.grace_s=1")
    assert (detail["job"]["state"], detail["job"]["reason"]) == ("FAILED", "max_runtime")


def test_a_pipe_in_the_place_of_its_wishes_holds_no_stop_up(yard: Yard) -> None:
    script = ATTEMPT + f'rm -f "$A/control.json"; {PIPE} "$A/control.json"\necho piped; while :; do sleep 1; done'
    job = yard.begin(script)
    wait_for(lambda: "piped" in yard.probe.log(job), "the script to forge")
    yard.console.sf("job", "stop", job, "--grace", "1", cwd=yard.probe.project)
    assert yard.probe.wait_end(job)["job"]["state"] == "STOPPED"


def test_fifteen_hundred_nested_folders_of_outputs_hold_nothing_up_and_can_be_deleted(yard: Yard) -> None:
    nest = "import os\nfor _ in range(1500): os.mkdir('deeper'); os.chdir('deeper')\nopen('end', 'w').close()"
    job, detail = yard.run(f'cd $FORGE_OUT_DIR; python3 -c "{nest}" && echo nested', limit_s=90)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "nested\n"
    wait_for(
        lambda: not yard.console.sf("job", "delete", job, "--yes", cwd=yard.probe.project, may_fail=True).returncode,
        "the deletion",
        20,
    )
    assert not yard.run_folder(job).exists()
