"""Examples of the messages about users, and about who did what."""

from pydantic import BaseModel

from starforge.contract import audit, people
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
    return [
        user,
        people.UserList(items=(user,)),
        people.AddUser(name="ann", role="member"),
        people.SetRole(role="operator"),
        people.SetActive(active=False),
        people.SetTeam(team="vision"),
        people.SetQuota(gpus=8, series=("h100",)),
        entry,
        audit.AuditList(items=(entry,), next=None),
    ]
