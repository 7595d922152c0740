"""The calls of the console's API about maintenance, typed by the contract."""

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract.maintenance import BeginMaintenance, MaintenanceView


class MaintenanceConsole(Console):
    """The console as its API shows its maintenance."""

    def maintenance(self) -> MaintenanceView:
        """Whether the console is in maintenance, and how far it has got."""
        return self._get(MaintenanceView, "/maintenance")

    def begin_maintenance(self, request: BeginMaintenance) -> MaintenanceView:
        """Start nothing any more and pause what runs; fine when that is so. For administrators."""
        body = request.model_dump(mode="json", exclude_none=True)
        return self._send(MaintenanceView, Request(method="POST", path="/admin/maintenance/drain", json=body))

    def end_maintenance(self) -> MaintenanceView:
        """Let jobs start again, those that were paused among them; fine when that is so. For administrators."""
        return self._send(MaintenanceView, Request(method="POST", path="/admin/maintenance/resume"))
