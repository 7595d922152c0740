"""What `starforge-console quota` and `user team` do and print."""

from dataclasses import asdict

from starforge.cli.output import note, print_json, print_table
from starforge.wording import count_of, describe_bytes
from starforge_console.accounts.quotas import (
    change_limit,
    change_team,
    find_holder,
    list_quotas,
    list_team,
    remove_limit,
)
from starforge_console.domain.gpu_hours import HOUR_S
from starforge_console.domain.quota import Holder
from starforge_console.domain.statement import QuotaLine, RunUse
from starforge_console.ledger.database import Database
from starforge_console.ledger.quotas import load_quotas


def set_quota(ledger: Database, user: str | None, team: str | None, changes: dict[str, str]) -> None:
    """Change the limit of a user or team, and say what it is now. Raises InputError, NotFound."""
    holder = find_holder(ledger, user, team)
    limit = change_limit(ledger, holder, changes)
    note(f"{holder}: {limit}")
    if holder.kind == "team" and not list_team(ledger, holder.name):
        note(f"nobody is in team {holder.name} yet: starforge-console user team USER {holder.name}")


def remove_quota(ledger: Database, user: str | None, team: str | None) -> None:
    """Take the limit of a user or team away. Raises InputError, NotFound."""
    holder = find_holder(ledger, user, team)
    remove_limit(ledger, holder)
    note(f"{holder}: no limit")


def show_quotas(ledger: Database, now: float, *, as_json: bool, runs: bool = False) -> None:
    """Print every limit with what counts against it at `now`; with `runs` those that add up to it."""
    lines = list_quotas(ledger, now)
    if as_json:
        print_json({"items": [_to_json(line) for line in lines]})
        return
    if not lines:
        note("nobody has a quota")
        return
    rows = [
        (
            str(line.holder),
            _describe_part(line.gpus, line.limit.gpus),
            _describe_part(line.jobs, line.limit.jobs),
            _describe_hours(line),
            _describe_storage(line),
            _describe_names(line.limit.series),
            _describe_names(line.limit.profiles),
        )
        for line in lines
    ]
    print_table(("HOLDER", "GPUS", "JOBS", "GPU-HOURS IN 24 H", "STORED", "SERIES", "PROFILES"), rows)
    counted = [(line, run) for line in lines for run in line.runs] if runs else []
    if counted:
        note("")
        heads = ("HOLDER", "RUN", "USER", "GPUS", "JOBS", "GPU-HOURS IN 24 H", "STORED")
        print_table(heads, [_describe_run(*one) for one in counted])


def put_in_team(ledger: Database, user: str, team: str | None) -> None:
    """Let the user belong to a team or to none, and say who is in it. Raises InputError, NotFound."""
    change_team(ledger, user, team)
    if team is None:
        note(f"user {user} is in no team")
        return
    members = list_team(ledger, team)
    note(f"team {team} has {count_of(len(members), 'member')}: {', '.join(members)}")
    if Holder("team", team) not in ledger.read_now(load_quotas).limits:
        note(f"team {team} has no quota: starforge-console quota set --team {team} --gpus N")


def _describe_part(held: int, most: int | None) -> str:
    return f"{held} of {most}" if most is not None else f"{held}"


def _describe_hours(line: QuotaLine) -> str:
    used = f"{line.gpu_s / HOUR_S:.2f}"
    return used if line.limit.gpu_hours is None else f"{used} of {line.limit.gpu_hours}"


def _describe_storage(line: QuotaLine) -> str:
    used, most = describe_bytes(line.bytes), line.limit.storage_gib
    return used if most is None else f"{used} of {most} GiB"


def _describe_names(names: frozenset[str] | None) -> str:
    return "all" if names is None else ", ".join(sorted(names))


def _describe_run(line: QuotaLine, run: RunUse) -> tuple[str, ...]:
    hours = f"{run.gpu_s / HOUR_S:.2f}" + (" (does not answer)" if run.is_silent else "")
    return (str(line.holder), run.job, run.user, str(run.gpus), str(run.jobs), hours, describe_bytes(run.bytes))


def _to_json(line: QuotaLine) -> dict[str, object]:
    limit = line.limit
    most = {part: sorted(value) if isinstance(value, frozenset) else value for part, value in asdict(limit).items()}
    used = {"held": {"gpus": line.gpus, "jobs": line.jobs}, "gpu_seconds": line.gpu_s, "stored_bytes": line.bytes}
    runs = [run._asdict() for run in line.runs]
    return {"kind": line.holder.kind, "name": line.holder.name, **most, **used, "runs": runs}
