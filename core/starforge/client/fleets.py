"""The calls of the console's API about fleets and nodes, typed by the contract."""

from urllib.parse import quote

from starforge.client.console import Console
from starforge.client.http import Request
from starforge.contract import fleets as api


class FleetConsole(Console):
    """The console as its API shows fleets and nodes; what changes something needs an administrator's token."""

    def fleets(self) -> api.FleetList:
        """All fleets."""
        return self._get(api.FleetList, "/fleets")

    def fleet(self, name: str) -> api.FleetDetail:
        """One fleet with its machines."""
        return self._get(api.FleetDetail, f"/fleets/{quote(name, safe='')}")

    def create_fleet(self, request: api.CreateFleet) -> api.FleetSummary:
        """Make a fleet."""
        body = request.model_dump(mode="json", exclude_none=True)
        if not request.require_max_runtime:
            del body["require_max_runtime"]  # consoles of before do not know it
        return self._send(api.FleetSummary, Request(method="POST", path="/fleets", json=body, repeatable=False))

    def change_fleet(self, name: str, change: api.ChangeFleet) -> api.FleetSummary:
        """Let a fleet take only jobs with a time limit, or all again."""
        path = f"/fleets/{quote(name, safe='')}"
        return self._send(api.FleetSummary, Request(method="PATCH", path=path, json=change.model_dump(mode="json")))

    def delete_fleet(self, name: str) -> None:
        """Delete a fleet without jobs and nodes."""
        self.connection.send(Request(method="DELETE", path=f"/fleets/{quote(name, safe='')}", repeatable=False))

    def mint_join_token(self, fleet: str, request: api.MintJoinToken) -> api.MintedJoinToken:
        """A new join token for the fleet, and the line to paste."""
        path = f"/fleets/{quote(fleet, safe='')}/join-tokens"
        body = request.model_dump(mode="json")
        return self._send(api.MintedJoinToken, Request(method="POST", path=path, json=body, repeatable=False))

    def join_tokens(self, fleet: str) -> api.JoinTokenList:
        """The fleet's join tokens that still let somebody in."""
        return self._get(api.JoinTokenList, f"/fleets/{quote(fleet, safe='')}/join-tokens")

    def revoke_join_token(self, fleet: str, token: int) -> None:
        """Let no machine in any more with this token."""
        path = f"/fleets/{quote(fleet, safe='')}/join-tokens/{token}"
        self.connection.send(Request(method="DELETE", path=path, repeatable=False))

    def gpu_series(self) -> api.GpuSeriesList:
        """The names of GPUs that administrators added."""
        return self._get(api.GpuSeriesList, "/gpu-series")

    def add_gpu_series(self, request: api.AddGpuSeries) -> api.GpuSeriesView:
        """Give a name of a GPU its series."""
        return self._send(
            api.GpuSeriesView, Request(method="POST", path="/gpu-series", json=request.model_dump(mode="json"))
        )

    def forget_gpu_series(self, name: str) -> None:
        """Forget a name that an administrator added."""
        self.connection.send(Request(method="DELETE", path="/gpu-series", query={"name": name}, repeatable=False))

    def nodes(self) -> api.NodeList:
        """The machines of all fleets."""
        return self._get(api.NodeList, "/nodes")

    def drain(self, node: str, request: api.DrainNode) -> api.NodeChanged:
        """Place nothing new on the node."""
        # What was not asked for is not sent: consoles of before do not know it.
        return self._change(node, "drain", request.model_dump(mode="json", exclude_defaults=True))

    def undrain(self, node: str) -> api.NodeChanged:
        """Place on the node again."""
        return self._change(node, "undrain")

    def remove_node(self, node: str) -> api.NodeChanged:
        """Take the node out of its fleet."""
        return self._change(node, "remove")

    def mark_lost(self, node: str, request: api.MarkLost) -> api.NodeChanged:
        """Declare that the machine is off or cut from the storage."""
        return self._change(node, "mark-lost", request.model_dump(mode="json"))

    def end_unknown(self, node: str, request: api.EndUnknown) -> None:
        """End a running container that the ledger knows nothing of."""
        path = f"/nodes/{quote(node, safe='')}/end-unknown"
        self.connection.send(Request(method="POST", path=path, json=request.model_dump(mode="json"), repeatable=False))

    def _change(self, node: str, verb: str, body: object = None) -> api.NodeChanged:
        path = f"/nodes/{quote(node, safe='')}/{verb}"
        # A repeat would find the node removed, or fail another attempt.
        repeatable = verb in {"drain", "undrain"}
        return self._send(api.NodeChanged, Request(method="POST", path=path, json=body, repeatable=repeatable))
