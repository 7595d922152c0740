"""The calls of the console's API about users, and about who did what, typed by the contract."""

from collections.abc import Mapping
from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.audit import AuditList
from starforge.contract.people import AddUser, RoleName, UserList, UserView


class PeopleConsole(Console):
    """The console as its API shows users and the audit log. For administrators."""

    def users(self) -> UserList:
        """Everybody who may sign in."""
        return self._get(UserList, "/admin/users")

    def add_user(self, name: str, role: RoleName) -> UserView:
        """Add a user."""
        wanted = AddUser(name=name, role=role).model_dump(mode="json")
        return self._send(UserView, Request(method="POST", path="/admin/users", json=wanted, repeatable=False))

    def change_user(self, name: str, part: str, value: str | bool | None) -> UserView:  # noqa: FBT001 - a message's value
        """Change one part of a user: `role`, `team` or `active`."""
        path = f"/admin/users/{quote(name, safe='')}/{part}"
        return self._send(UserView, Request(method="PUT", path=path, json={part: value}))

    def audit(self, asked: Mapping[str, str | int]) -> AuditList:
        """Who did what, the newest first."""
        return self._get(AuditList, "/admin/audit", dict(asked))
