"""Users as commands of the console's machine need them beside `accounts.acts`; everything may block."""

from collections.abc import Iterable, Sequence

from starforge.contract.launch import Secret
from starforge.errors import Conflict
from starforge.said.sentence import Said, say
from starforge_console.accounts.tokens import MADE_HERE, make_personal_token, parse_scopes
from starforge_console.domain.roles import Role
from starforge_console.ledger.accounts import User, add_token, list_users
from starforge_console.ledger.audit import audited
from starforge_console.ledger.database import Database
from starforge_console.ledger.people import load_person


def find_first_admin(ledger: Database) -> User | None:
    """The administrator who was first, if there is one."""
    return next((user for user in ledger.read_now(list_users) if user.role == Role.ADMIN and user.active), None)


def load_admin(ledger: Database, name: str) -> User:
    """The active administrator of that name. Raises NotFound, and Conflict for anybody else."""
    user = ledger.read_now(lambda c: load_person(c, name)).user
    if user.role != Role.ADMIN:
        raise Conflict(
            say("fault.other_role", name=name, role=user.role), next_step=say("fault.other_role_next", name=name)
        )
    if not user.active:
        raise Conflict(say("fault.inactive", name=name), next_step=say("fault.inactive_next"))
    return user


def issue_token(ledger: Database, name: str, scopes: Sequence[str], days: float, now: float) -> Secret:
    """A new personal token for the user. Raises NotFound, and InputError for scopes beyond the user's role."""
    user = ledger.read_now(lambda c: load_person(c, name)).user
    granted = parse_scopes(scopes, user.role)
    issued = make_personal_token(user.id, granted, MADE_HERE, now, days)
    adding = audited(
        lambda c: add_token(c, issued.kept, now), lambda token: tell_token(token, user.name, granted, issued.days)
    )
    ledger.write_now(adding)
    return issued.text


def tell_token(token: int, user: str, scopes: Iterable[str], days: float) -> Said:
    """What the audit log says of a new token."""
    return say("did.token_made", token=token, user=user, scopes=", ".join(sorted(scopes)), days=f"{round(days, 2):g}")
