"""How the daemon is asked: which version, with which token, and again where an answer alone says too little."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk, jwt

from server.tests.executors.slurm.daemon import Daemon, ask, build_settings
from server.tests.executors.slurm.replies import complaint, exit_code, job, jobs, number
from starforge.contract.ids import AttemptId, new_attempt_id, new_job_id
from starforge.contract.launch import Secret
from starforge.contract.observation import EndCause, Gone, NoSignal, Observation, Seen
from starforge_console.executors.slurm.executor import SlurmExecutor
from starforge_console.executors.slurm.records import Launch, SlurmLaunches
from starforge_console.executors.slurm.replies import SlurmSilent
from starforge_console.executors.slurm.rest import SlurmRest
from starforge_console.executors.slurm.settings import SigningKey, TokenFile
from starforge_console.executors.slurm.submission import write_owner
from starforge_console.executors.slurm.tokens import Tokens

ATTEMPT = new_attempt_id(new_job_id(), 1)
UNKNOWN = (404, jobs(errors=[complaint(2017, "Invalid job id specified")]))


def observe(daemon: Daemon, tmp_path: Path, attempt: AttemptId = ATTEMPT) -> Observation:
    async def question(executor: SlurmExecutor) -> Observation:
        return (await executor.observe([attempt]))[attempt]

    found: Observation = ask(daemon, tmp_path, question)
    return found


def remember(tmp_path: Path, job_id: int) -> None:
    workdir = tmp_path / "attempt"
    (workdir / ".slurm").mkdir(parents=True)
    (workdir / ".slurm" / "start").write_text(f"job {job_id} 0\n")
    SlurmLaunches(tmp_path / "state").write(
        Launch(attempt=ATTEMPT, user="ada", workdir=str(workdir), pools=(), job_id=job_id)
    )


def test_a_version_that_is_not_served_any_more_is_agreed_on_anew(daemon: Daemon, tmp_path: Path) -> None:
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING")))

    async def question(executor: SlurmExecutor) -> list[Observation]:
        first = (await executor.observe([ATTEMPT]))[ATTEMPT]
        del daemon.answers["/slurm/v0.0.41/jobs"]
        daemon.serve("v0.0.44")
        daemon.answers["/slurm/v0.0.44/jobs"] = (200, jobs(job("RUNNING")))
        return [first, *[(await executor.observe([ATTEMPT]))[ATTEMPT] for _ in range(2)]]

    first, upgraded, after = ask(daemon, tmp_path, question)
    assert isinstance(first, Gone)
    assert isinstance(upgraded, NoSignal)
    assert isinstance(after, Gone)


def test_a_strangers_name_that_is_no_text_hides_no_job_of_ours(daemon: Daemon, tmp_path: Path) -> None:
    ours = job("RUNNING", name=f"starforge-{ATTEMPT}", comment=write_owner("lab", ATTEMPT))
    listed = json.dumps(jobs(ours, job("RUNNING", job_id=2, name="stranger"))).encode()
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, listed.replace(b"stranger", b"\xff\xfe\xc3("))
    assert isinstance(observe(daemon, tmp_path), Seen)


@pytest.mark.parametrize(
    "answer", ["<html>It works!</html>", "", '{"jobs": [{', "[]", "null", "7", '{"jobs": null}', '{"jobs": [null]}']
)
def test_a_list_that_is_none_is_no_signal(daemon: Daemon, tmp_path: Path, answer: str) -> None:
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, answer)
    assert isinstance(observe(daemon, tmp_path), NoSignal)


def test_a_list_that_answers_as_if_for_one_job_is_no_signal(daemon: Daemon, tmp_path: Path) -> None:
    daemon.answers["/slurm/v0.0.41/jobs"] = UNKNOWN
    assert isinstance(observe(daemon, tmp_path), NoSignal)


def test_a_token_that_is_refused_at_the_first_question_is_made_anew(daemon: Daemon, tmp_path: Path) -> None:
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING")))
    paths = daemon.answers["/openapi/v3"]
    daemon.answers["/openapi/v3"] = (401, "Authentication failure\n")

    async def question(executor: SlurmExecutor) -> list[Observation]:
        refused = (await executor.observe([ATTEMPT]))[ATTEMPT]
        daemon.answers["/openapi/v3"] = paths
        (tmp_path / "key").write_bytes(b"l" * 32)
        return [refused, (await executor.observe([ATTEMPT]))[ATTEMPT]]

    refused, after = ask(daemon, tmp_path, question)
    assert isinstance(refused, NoSignal)
    assert isinstance(after, Gone)
    jwt.decode(daemon.tokens[-1] or "", jwk.OctKey.import_key(b"l" * 32))


def test_versions_that_nobody_speaks_are_no_signal_with_what_was_offered(daemon: Daemon, tmp_path: Path) -> None:
    daemon.serve("v0.0.99")
    seen = observe(daemon, tmp_path)
    assert isinstance(seen, NoSignal)
    assert "offers v0.0.99, and this console speaks v0.0.37" in seen.reason


def test_an_empty_list_counts_only_if_the_controller_says_itself_that_it_answers(
    daemon: Daemon, tmp_path: Path
) -> None:
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs())
    daemon.answers["/slurm/v0.0.41/job/67108863"] = (500, jobs(errors=[complaint(1007, "Protocol authentication")]))
    assert isinstance(observe(daemon, tmp_path), NoSignal)
    daemon.answers["/slurm/v0.0.41/job/67108863"] = UNKNOWN
    assert isinstance(observe(daemon, tmp_path), Gone)


def test_a_job_that_the_controller_has_forgotten_is_asked_of_the_accounting(daemon: Daemon, tmp_path: Path) -> None:
    remember(tmp_path, 5737)
    daemon.serve("v0.0.41", accounting=True)
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING")))
    daemon.answers["/slurm/v0.0.41/job/5737"] = UNKNOWN
    entry = {
        "job_id": 5737,
        "name": f"starforge-{ATTEMPT}",
        "user": "ada",
        "state": {"current": ["TIMEOUT"], "reason": "None"},
        "exit_code": exit_code(0),
        "nodes": "cn1",
        "time": {"start": 1, "end": 2, "limit": number(1)},
    }
    daemon.answers["/slurmdb/v0.0.41/job/5737"] = (200, jobs())
    assert isinstance(observe(daemon, tmp_path), Gone)
    daemon.answers["/slurmdb/v0.0.41/job/5737"] = (200, jobs(entry))
    seen = observe(daemon, tmp_path)
    assert isinstance(seen, Seen)
    assert seen.exit is not None
    assert seen.exit.cause is EndCause.TIME_LIMIT


def test_an_id_that_has_come_to_mean_a_strangers_job_means_none(daemon: Daemon, tmp_path: Path) -> None:
    remember(tmp_path, 7)
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING", job_id=8)))
    for changes in ({"name": "train"}, {"name": f"starforge-{ATTEMPT}", "user_name": "eve"}):
        daemon.answers["/slurm/v0.0.41/job/7"] = (200, jobs(job("RUNNING", job_id=7, **changes)))
        assert isinstance(observe(daemon, tmp_path), Gone)


def test_a_job_that_the_list_hides_is_found_by_its_id(daemon: Daemon, tmp_path: Path) -> None:
    remember(tmp_path, 7)
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING", job_id=8)))
    hidden = job("RUNNING", job_id=7, name=f"starforge-{ATTEMPT}")
    daemon.answers["/slurm/v0.0.41/job/7"] = (200, jobs(hidden))
    assert isinstance(observe(daemon, tmp_path), Seen)


def test_an_end_that_was_seen_is_told_when_the_daemon_is_away_too(daemon: Daemon, tmp_path: Path) -> None:
    remember(tmp_path, 7)
    entry = job("FAILED", job_id=7, name=f"starforge-{ATTEMPT}", exit_code=exit_code(3))
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs({**entry, "comment": write_owner("lab", ATTEMPT)}))
    first = observe(daemon, tmp_path)
    assert isinstance(first, Seen)
    daemon.answers.clear()
    assert observe(daemon, tmp_path) == first


@pytest.mark.parametrize(
    "changes", [{"user_name": "eve"}, {"comment": write_owner("other", ATTEMPT)}, {"name": "starforge-other"}]
)
def test_a_strangers_job_is_never_taken_for_an_attempt(daemon: Daemon, tmp_path: Path, changes: dict[str, str]) -> None:
    entry = job("RUNNING", name=f"starforge-{ATTEMPT}", comment=write_owner("lab", ATTEMPT))
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs({**entry, **changes}))
    assert isinstance(observe(daemon, tmp_path), Gone)


def test_a_job_whose_comment_the_cluster_has_changed_is_known_by_its_name(daemon: Daemon, tmp_path: Path) -> None:
    entry = job("RUNNING", job_id=7, name=f"starforge-{ATTEMPT}", comment="project=x")
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(entry))
    assert isinstance(observe(daemon, tmp_path), Gone)
    remember(tmp_path, 7)
    daemon.asked.clear()
    assert isinstance(observe(daemon, tmp_path), Seen)
    assert daemon.asked == ["/openapi/v3", "/slurm/v0.0.41/jobs"]


def test_one_question_answers_for_all(daemon: Daemon, tmp_path: Path) -> None:
    entries = []
    attempts = [new_attempt_id(new_job_id(), 1) for _ in range(20)]
    for place, attempt in enumerate(attempts):
        comment = write_owner("lab", attempt)
        entries.append(job("RUNNING", job_id=place + 1, name=f"starforge-{attempt}", comment=comment))
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(*entries))

    async def question(executor: SlurmExecutor) -> Any:
        return await executor.observe(attempts)

    assert all(isinstance(seen, Seen) for seen in ask(daemon, tmp_path, question).values())
    assert daemon.asked == ["/openapi/v3", "/slurm/v0.0.41/jobs"]


def test_a_token_of_a_file_is_read_for_every_call_and_never_where_it_would_hold_others_up(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["/slurm/v0.0.41/jobs"] = (200, jobs(job("RUNNING")))
    file, readers, load = tmp_path / "token", list[int](), Tokens.load
    file.write_text("one")

    def spy(tokens: Tokens, user: str) -> Secret | None:
        readers.append(threading.get_ident())
        return load(tokens, user)

    async def question(executor: SlurmExecutor) -> None:
        await executor.observe([ATTEMPT])
        file.write_text("SLURM_JWT=two\n")
        await executor.observe([ATTEMPT])

    monkeypatch.setattr(Tokens, "load", spy)
    ask(daemon, tmp_path, question, token=TokenFile(file))
    assert daemon.tokens == ["one", "one", "two"]
    assert threading.get_ident() not in readers


def test_a_key_that_is_too_short_is_told_by_its_length(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 13)
    with pytest.raises(SlurmSilent, match=r"key.*13 bytes.*14"):
        Tokens(SigningKey(key)).load("ada")
    key.write_bytes(b"k" * 14)
    assert Tokens(SigningKey(key)).load("ada")


def test_a_token_is_signed_for_its_user_and_renewed_well_before_it_ends(tmp_path: Path) -> None:
    key, clock = tmp_path / "key", [1_000_000.0]
    key.write_bytes(b"k" * 32)
    tokens = Tokens(SigningKey(key, lifetime_s=1000), lambda: clock[0])
    first = tokens.load("ada")
    assert first is not None
    claims = jwt.decode(first.reveal(), jwk.OctKey.import_key(b"k" * 32)).claims
    assert claims == {"iat": 1_000_000, "exp": 1_001_000, "sun": "ada"}
    assert tokens.load("bob") != first
    clock[0] += 499
    assert tokens.load("ada") == first
    clock[0] += 2
    assert tokens.load("ada") != first


@pytest.mark.parametrize(
    ("source", "content"),
    [(TokenFile, b"\xff\xfe\x00"), (TokenFile, b" \n"), (TokenFile, None), (SigningKey, b""), (SigningKey, None)],
)
def test_a_file_that_holds_no_token_or_key_is_told_by_its_name(
    tmp_path: Path, source: type[TokenFile | SigningKey], content: bytes | None
) -> None:
    file = tmp_path / "given"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SlurmSilent, match="given"):
        Tokens(source(file)).load("ada")


def test_a_daemon_that_is_away_is_told_with_what_to_look_at(daemon: Daemon, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    settings = build_settings(daemon, tmp_path, url=f"unix://{tmp_path}/away.sock")
    with pytest.raises(SlurmSilent, match="does not answer at unix://") as silent:
        asyncio.run(SlurmRest(settings, Tokens(SigningKey(key))).negotiate())
    assert "FORGE_SLURM_URL" in silent.value.next_step
