"""A whole cluster for tests: its API server over a store alone, or over a real API server for what that serves."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from e2e.support.kube.asking import KubeClient
from e2e.support.kube.front import FrontBackend
from e2e.support.kube.real import RealApi
from e2e.support.kube.server import KubeServer, kube_server
from e2e.support.kube.serving import Backend, StoreBackend
from e2e.support.kube.store import Store

TOKEN: Final = "token-of-the-console"  # noqa: S105 - made up
USER: Final = "system:serviceaccount:training:starforge"


@dataclass(frozen=True, slots=True)
class KubeApi:
    """A running API. `backend` answers like `server`, without its bad moments."""

    server: KubeServer
    store: Store
    backend: Backend
    core: StoreBackend

    @property
    def client(self) -> KubeClient:
        """A client that may come in."""
        return KubeClient(self.server.port, TOKEN)


@contextlib.contextmanager
def kube_api(real: RealApi | None = None) -> Iterator[KubeApi]:
    """An API for as long as the block lasts; `real` serves RayJobs where it is given."""
    store = Store()
    core = StoreBackend(store)
    backend: Backend = core if real is None else FrontBackend(real, core)
    with kube_server(backend) as server:
        server.tokens[TOKEN] = USER
        yield KubeApi(server, store, backend, core)
