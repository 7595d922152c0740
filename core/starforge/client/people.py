"""The calls of the console's API about users, and about who did what, typed by the contract."""

from collections.abc import Mapping
from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.audit import AuditList
from starforge.contract.people import AddUser, RoleName, SetQuota, UserList, UserView
from starforge.contract.quotas import QuotaList, QuotaView


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

    def limits(self) -> QuotaList:
        """Every limit of a user or a team, with what counts against it."""
        return self._get(QuotaList, "/admin/quotas")

    def set_limit(self, kind: str, name: str, limit: SetQuota) -> QuotaView:
        """Give a user or a team this limit, in place of the one before."""
        path = f"/admin/quotas/{kind}/{quote(name, safe='')}"
        return self._send(QuotaView, Request(method="PUT", path=path, json=limit.model_dump(mode="json")))

    def remove_limit(self, kind: str, name: str) -> None:
        """Let a user or a team have no limit."""
        path = f"/admin/quotas/{kind}/{quote(name, safe='')}"
        self.connection.send(Request(method="DELETE", path=path, repeatable=False))

    def audit(self, asked: Mapping[str, str | int]) -> AuditList:
        """Who did what, the newest first."""
        return self._get(AuditList, "/admin/audit", dict(asked))
