"""The calls of the console's API about retention, typed by the contract. They need an administrator's token."""

from typing import Final

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract import retention as api

_PATH: Final = "/admin/gc"
_PASS_S: Final = 600.0
"""A pass is bounded, but a single large folder may take its time."""


class RetentionConsole(Console):
    """The console as its API shows the collector."""

    def removable(self) -> api.Collection:
        """What would go now."""
        return self._send(api.Collection, Request(method="GET", path=_PATH, wait_s=_PASS_S))

    def collect(self) -> api.Collection:
        """Let go what may, in one bounded pass."""
        return self._send(api.Collection, Request(method="POST", path=_PATH, repeatable=False, wait_s=_PASS_S))

    def hold(self, request: api.HoldRequest) -> api.HoldView:
        """Let nothing be removed for a while."""
        body = request.model_dump(mode="json", exclude_none=True)
        return self._send(api.HoldView, Request(method="PUT", path=f"{_PATH}/hold", json=body, wait_s=_PASS_S))

    def release(self, hold: str = "") -> None:
        """End this hold, or all that the caller took; the holds of others stand."""
        query = {"id": hold} if hold else {}
        self.connection.send(Request(method="DELETE", path=f"{_PATH}/hold", query=query))
