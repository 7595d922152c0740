"""What `starforge-console quota` and `user team` do and print."""

from starforge.cli.output import note, print_json
from starforge.cli.quota_tables import print_quotas
from starforge.contract.quotas import QuotaList
from starforge.wording import count_of
from starforge_console.accounts.acts import build_limit, build_no_limit, build_team
from starforge_console.accounts.quota_views import show_quota
from starforge_console.accounts.quotas import find_holder, list_quotas, list_team, parse_parts
from starforge_console.domain.quota import Holder
from starforge_console.ledger.database import Database
from starforge_console.ledger.quotas import load_quotas


def set_quota(ledger: Database, user: str | None, team: str | None, changes: dict[str, str]) -> None:
    """Change the limit of a user or team, and say what it is now. Raises InputError, NotFound."""
    holder = find_holder(ledger, user, team)
    limit = ledger.write_now(build_limit(holder, parse_parts(changes)))
    note(f"{holder}: {limit}")
    if holder.kind == "team" and not list_team(ledger, holder.name):
        note(f"nobody is in team {holder.name} yet: starforge-console user team USER {holder.name}")


def remove_quota(ledger: Database, user: str | None, team: str | None) -> None:
    """Take the limit of a user or team away. Raises InputError, NotFound."""
    holder = find_holder(ledger, user, team)
    ledger.write_now(build_no_limit(holder))
    note(f"{holder}: no limit")


def show_quotas(ledger: Database, now: float, *, as_json: bool, runs: bool = False) -> None:
    """Print every limit with what counts against it at `now`; with `runs` those that add up to it."""
    quotas = QuotaList(items=tuple(map(show_quota, list_quotas(ledger, now))))
    if as_json:
        print_json(quotas.model_dump(mode="json"))
    else:
        print_quotas(quotas.items, runs=runs)


def put_in_team(ledger: Database, user: str, team: str | None) -> None:
    """Let the user belong to a team or to none, and say who is in it. Raises InputError, NotFound."""
    ledger.write_now(build_team(user, team))
    if team is None:
        note(f"user {user} is in no team")
        return
    members = list_team(ledger, team)
    note(f"team {team} has {count_of(len(members), 'member')}: {', '.join(members)}")
    if Holder("team", team) not in ledger.read_now(load_quotas).limits:
        note(f"team {team} has no quota: starforge-console quota set --team {team} --gpus N")
