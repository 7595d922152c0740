"""What jobs hold on the storage, in the ledger: told, measured, removed and deleted; the sums by user always add up."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, insert, select, update

from server.tests.databases import empty_place, place_of
from server.tests.ledger.builders import apply, open_ledger, submit, take
from server.tests.ledger.older import copy_older
from starforge.contract.ids import AttemptId, JobId
from starforge.contract.states import Reason
from starforge_console.domain.quota import GIB, Holder
from starforge_console.ledger.database import Database
from starforge_console.ledger.endings import note_finalised
from starforge_console.ledger.jobs import delete_job
from starforge_console.ledger.kept_tables import removals
from starforge_console.ledger.quotas import change_parts, list_members, load_usage, set_team
from starforge_console.ledger.reports import Output, ReportingAttempt, Reports, note_reports
from starforge_console.ledger.share_tables import stored
from starforge_console.ledger.statements import list_own
from starforge_console.ledger.stored import Store, list_stored, load_stored, note_stored, note_told
from starforge_console.ledger.tables import attempts

ADA, BOB = 1, 2
KINDS = st.sampled_from(list(Store))


def end(ledger: Database, *, user: str = "ada", reason: Reason = Reason.EXITED_ZERO) -> JobId:
    job = ledger.write_now(lambda c: submit(c, user=user))
    ledger.write_now(lambda c: take(c, job))
    ledger.write_now(lambda c: apply(c, job, Reason.LAUNCHED, Reason.STARTED, reason))
    ledger.write_now(lambda c: c.execute(update(attempts).values(cleaned_at=50.0)))
    return job


def held(ledger: Database) -> dict[int, int]:
    return ledger.read_now(lambda c: load_stored(c, [ADA, BOB]))


def attempt_of(ledger: Database, job: JobId) -> AttemptId:
    return AttemptId(
        ledger.read_now(lambda c: c.execute(select(attempts.c.id).where(attempts.c.job_id == job)).scalar_one())
    )


def test_what_was_measured_last_counts_and_what_was_not_measured_stays(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job = end(ledger)
        ledger.write_now(lambda c: note_stored(c, job, {(Store.ARTIFACTS, 1): 5, (Store.CHECKPOINTS, 1): 100}))
        ledger.write_now(lambda c: note_stored(c, job, {(Store.CHECKPOINTS, 1): 40, (Store.CHECKPOINTS, 2): 3}))
        assert held(ledger) == {ADA: 48}
        assert ledger.read_now(lambda c: list_stored(c, [ADA])) == {(ADA, job): 48}
        ledger.write_now(lambda c: note_stored(c, job, {(Store.CHECKPOINTS, 1): 0}))
        assert held(ledger) == {ADA: 8}


def test_a_job_that_is_deleted_gives_back_what_it_held_and_one_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job, other = end(ledger), end(ledger)
        for one in (job, other):
            ledger.write_now(lambda c: note_stored(c, one, {(Store.LOG, 1): 7}))  # noqa: B023 - called at once
        ledger.write_now(lambda c: delete_job(c, job))
        ledger.write_now(lambda c: note_stored(c, job, {(Store.LOG, 1): 9}))
        assert held(ledger) == {ADA: 7}


def test_artifacts_that_a_running_attempt_tells_of_count_at_once_and_once_for_all_attempts_of_a_folder(
    tmp_path: Path,
) -> None:
    with open_ledger(tmp_path) as ledger:
        job = ledger.write_now(submit)
        attempt = ledger.write_now(lambda c: take(c, job)).attempt.id
        reporting = ReportingAttempt(id=attempt, job=job, number=1)
        for before, sizes in enumerate(({"a": 5, "b": 6}, {"a": 9})):
            outputs = [Output(kind="artifact", path=path, bytes=size) for path, size in sizes.items()]
            told = Reports(before=before, to=before + 1, notes=(), outputs=outputs)
            assert ledger.write_now(lambda c: note_reports(c, reporting, told, 20.0))  # noqa: B023 - called at once
        assert held(ledger) == {ADA: 15}
        ledger.write_now(lambda c: note_told(c, job, 1, 12))
        assert held(ledger) == {ADA: 15}, "the second attempt has told of less, and what lies there lies there"
        ledger.write_now(lambda c: note_stored(c, job, {(Store.ARTIFACTS, 1): 11}))
        assert held(ledger) == {ADA: 11}


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("measure"), st.integers(0, 3), KINDS, st.integers(1, 2), st.integers(0, 9)),
            st.tuples(st.just("tell"), st.integers(0, 3), st.none(), st.integers(1, 2), st.integers(0, 9)),
            st.tuples(st.just("delete"), st.integers(0, 3), st.none(), st.just(1), st.just(0)),
        ),
        max_size=20,
    )
)
@settings(max_examples=25, deadline=None)
def test_the_sum_of_a_user_is_the_sum_of_the_named_runs_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, Store | None, int, int]]
) -> None:
    with open_ledger(tmp_path_factory.mktemp("ledger")) as ledger:
        made = [end(ledger, user=user) for user in ("ada", "ada", "bob", "bob")]
        gone: set[JobId] = set()
        for act, number, kind, attempt, size in steps:
            job = made[number]
            if job in gone:
                continue
            if act == "delete":
                gone.add(job)
                ledger.write_now(lambda c: delete_job(c, job))  # noqa: B023 - called at once
            elif kind is None:
                ledger.write_now(lambda c: note_told(c, job, attempt, size))  # noqa: B023 - called at once
            else:
                ledger.write_now(lambda c: note_stored(c, job, {(kind, attempt): size}))  # noqa: B023 - the same
        members = ledger.read_now(list_members)
        assert {member.user for member in members.values()} == {"ada", "bob"}
        for user in members:
            (line,) = ledger.read_now(lambda c: list_own(c, user, 100.0))  # noqa: B023 - called at once
            assert line.bytes == sum(run.bytes for run in line.runs) == held(ledger).get(user, 0)
            assert not gone & {run.job for run in line.runs}


def test_the_storage_of_a_team_is_that_of_its_members_together(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        jobs = [end(ledger, user=user) for user in ("ada", "bob")]
        for user in (ADA, BOB):
            ledger.write_now(lambda c: set_team(c, user, "ml"))  # noqa: B023 - called at once
        ledger.write_now(lambda c: change_parts(c, Holder("team", "ml"), {"storage_gib": 2}))

        def why(user: int | None) -> str:
            usage = ledger.read_now(lambda c: load_usage(c, 100.0, user))
            return "".join(hold.reason for hold in usage.find_holds(ADA, ()))

        ledger.write_now(lambda c: note_stored(c, jobs[0], {(Store.LOG, 1): GIB}))
        assert (why(None), why(ADA)) == ("", "")
        ledger.write_now(lambda c: note_stored(c, jobs[1], {(Store.LOG, 1): GIB}))
        assert why(None) == why(ADA)
        assert why(ADA).startswith("2.0 GiB of 2 GiB on the storage held: it can start once 1 B of it are freed")


def outputs(artifacts: dict[str, int | None], **checkpoints: int) -> dict[str, object]:
    return {
        "artifacts": [{"path": path, "bytes": size, "sha256": None} for path, size in artifacts.items()],
        "checkpoints": [
            {"step": 1, "path": f"ckpt/{name}", "bytes": size, "committed": True} for name, size in checkpoints.items()
        ],
    }


def test_an_older_ledger_begins_with_what_its_attempts_left_and_retention_has_not_removed(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        job, other, silent = end(ledger), end(ledger, user="bob"), end(ledger)
        attempt = attempt_of(ledger, job)
        ledger.write_now(lambda c: note_finalised(c, attempt, 60.0, outputs({"a": 10, "b": 5}, s1=100, s2=200), 1000))
        last = attempt_of(ledger, other)
        ledger.write_now(lambda c: note_finalised(c, last, 60.0, outputs({"z": None}, s1=7), 70))

        def add_attempts(connection: Connection) -> None:
            (row,) = connection.execute(select(attempts).where(attempts.c.id == attempt)).mappings().all()
            for number, reason, left in (
                (2, "node_lost", outputs({"b": 6, "c": 1}, s1=300)),
                (3, "exited_zero", outputs({"b": 2}, s9=400)),
            ):
                more = {"id": f"{job}-{number}", "number": number, "reason": reason, "outputs": json.dumps(left)}
                connection.execute(insert(attempts), dict(row) | more | {"token_hash": None, "produced_bytes": 50})
            gone = [(attempt, "checkpoint", "s1", 70.0), (last, "log", "", 70.0), (attempt, "checkpoint", "s2", None)]
            for of, kind, name, done_at in gone:
                values = {"attempt": of, "kind": kind, "name": name, "at": 70.0, "bytes": 1, "done_at": done_at}
                connection.execute(insert(removals), values)

        ledger.write_now(lambda c: change_parts(c, Holder("user", "ada"), {"gpus": 8}))
        ledger.write_now(add_attempts)
    older = tmp_path / "older"
    older.mkdir()
    copy_older(place_of(tmp_path / "ledger.db"), empty_place(older / "ledger.db"), "ledger", "0025")
    with open_ledger(older) as ledger:
        ids = (stored.c.job_id, stored.c.kind, stored.c.number, stored.c.bytes)
        rows = {tuple(row) for row in ledger.read_now(lambda c: c.execute(select(*ids)).all())}
        assert rows == {
            (job, "log", 1, 1000),
            (job, "log", 2, 50),
            (job, "log", 3, 50),
            (job, "checkpoints", 1, 200),
            (job, "checkpoints", 2, 300),
            (job, "checkpoints", 3, 400),
            (job, "artifacts", 1, 10 + 6 + 1),
            (job, "artifacts", 3, 2),
            (other, "checkpoints", 1, 7),
        }
        assert held(ledger) == {ADA: 2019, BOB: 7}
        (line,) = ledger.read_now(lambda c: list_own(c, ADA, 100.0 * 86_400.0))
        assert ([(run.job, run.bytes) for run in line.runs], line.limit.gpus) == ([(job, 2019)], 8)
        assert silent not in {run.job for run in line.runs}
