"""The calls of the console's API about the caller's own secrets, typed by the contract."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.kept_secrets import SecretList, SecretView
from starforge.contract.launch import Secret


class SecretConsole(Console):
    """The console as its API shows the caller's secrets: by name, and never by value."""

    def secrets(self) -> SecretList:
        """The caller's secrets."""
        return self._get(SecretList, "/secrets")

    def set_secret(self, name: str, value: Secret) -> SecretView:
        """Set one; what had the name before is replaced. Sent again it changes nothing but the time."""
        return self._send(SecretView, Request(method="PUT", path=_path(name), json={"value": value.reveal()}))

    def remove_secret(self, name: str) -> None:
        """Remove one. Raises NotFound."""
        self.connection.send(Request(method="DELETE", path=_path(name), repeatable=False))


def _path(name: str) -> str:
    return f"/secrets/{quote(name, safe='')}"
