"""The calls of the console's API about windows, typed by the contract."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.windows import EDGES_SHOWN, OpeningHours, SetWindow, WindowKind, WindowList, WindowView


class WindowConsole(Console):
    """The console as its API shows when fleets, teams and profiles may run."""

    def opening_hours(self, edges: int = EDGES_SHOWN) -> OpeningHours:
        """The windows that may bind the caller's jobs, with their next edges."""
        return self._get(OpeningHours, "/windows", {"edges": edges})

    def windows(self) -> WindowList:
        """All windows. For administrators."""
        return self._get(WindowList, "/admin/windows")

    def set_window(self, kind: WindowKind, name: str, window: SetWindow) -> WindowView:
        """Give a fleet, a team or a profile this window, in place of the one before. For administrators."""
        request = Request(method="PUT", path=_locate(kind, name), json=window.model_dump(mode="json"))
        return self._send(WindowView, request)

    def remove_window(self, kind: WindowKind, name: str) -> None:
        """Let it run at any time. For administrators."""
        self.connection.send(Request(method="DELETE", path=_locate(kind, name), repeatable=False))


def _locate(kind: WindowKind, name: str) -> str:
    return f"/admin/windows/{kind}/{quote(name, safe='')}"
