"""Examples of the messages about users, and about who did what."""

from pydantic import BaseModel

from starforge.contract import audit, people, tokens
from starforge.contract.quotas import Held
from starforge_console.web.examples.jobs import AT


def build_people() -> list[BaseModel]:
    """The messages about whoever may sign in."""
    user = people.UserView(name="ann", role="member", active=True, team="vision", held=Held(gpus=1, jobs=1))
    entry = audit.AuditEntry(
        number=12,
        at=AT,
        user="root",
        via="page",
        peer="192.0.2.7",
        token=3,
        act="user_team",
        what="put ann into team vision",
        values={"user": "ann", "team": "vision"},
    )
    token = tokens.TokenView(
        id=3,
        kind="session",
        user="ann",
        label="",
        scopes=("read", "submit"),
        created_at=AT,
        expires_at=AT + 43_200,
        used_at=AT,
        peer="192.0.2.7",
        agent="Mozilla/5.0",
        current=False,
    )
    return [
        user,
        people.UserList(items=(user,)),
        people.AddUser(name="ann", role="member"),
        people.SetRole(role="operator"),
        people.SetActive(active=False),
        people.SetTeam(team="vision"),
        people.SetQuota(gpus=8, series=("h100",)),
        token,
        tokens.TokenList(items=(token,)),
        tokens.OthersEnded(ended=2),
        entry,
        audit.AuditList(items=(entry,), next=None),
    ]
