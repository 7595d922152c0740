"""The calls of the console's API about logins at registries, typed by the contract; for administrators."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.launch import RegistryLogin
from starforge.contract.registries import RegistryLoginList, RegistryLoginView


class RegistryConsole(Console):
    """The console as its API shows how it signs in to registries."""

    def registry_logins(self) -> RegistryLoginList:
        """All of them, without their passwords."""
        return self._get(RegistryLoginList, "/admin/registries")

    def set_registry_login(self, registry: str, login: RegistryLogin) -> RegistryLoginView:
        """Let the console sign in so; what it had for the registry before is replaced."""
        body = {"username": login.username, "password": login.password.reveal()}
        return self._send(RegistryLoginView, Request(method="PUT", path=_locate(registry), json=body))

    def remove_registry_login(self, registry: str) -> None:
        """Let the console sign in no more."""
        self.connection.send(Request(method="DELETE", path=_locate(registry), repeatable=False))


def _locate(registry: str) -> str:
    return f"/admin/registries/{quote(registry, safe='')}"
