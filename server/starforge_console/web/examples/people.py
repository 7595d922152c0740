"""Examples of the messages about users, and about who did what."""

from pydantic import BaseModel

from starforge.contract import audit, device, people, tokens
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
        *_build_sign_ins(),
        entry,
        audit.AuditList(items=(entry,), next=None),
    ]


def _build_sign_ins() -> list[BaseModel]:
    """The messages about tokens, sessions and codes."""
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
    begun = device.DeviceBegun(
        device_code="a" * 43,
        user_code="BCDF-GHJK",
        verification_uri="https://forge.example.org/device",
        verification_uri_complete="https://forge.example.org/device?code=BCDF-GHJK",
        expires_in=600,
        interval=5,
    )
    return [
        token,
        tokens.TokenList(items=(token,)),
        tokens.OthersEnded(ended=2),
        device.BeginDevice(client_id="ann at laptop"),
        begun,
        device.PollDevice(device_code="a" * 43),
        device.DeviceToken(access_token="sfp_" + "a" * 43, expires_in=7_776_000, scope="read submit"),
    ]
