"""A daemon without a machine: the real routes over TLS, with canned answers. Run as `python -m bench.stub_node FOLDER`.

It stands for fifty machines, which this one could not hold; what is measured is the console's side of the calls.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from starforge.contract.ids import AttemptId
from starforge.contract.observation import Observation, Phase, Seen
from starforge.trust.contexts import build_server_context
from starforge_forgelet.api import build_app

INSTALL: Final = "bench"
NODE_FILE: Final = "node.pem"
CONSOLE_FILE: Final = "console.pem"
PORT_FILE: Final = "port"


@dataclass(frozen=True, slots=True)
class _Identity:
    install: str = INSTALL
    node: str = "stub"


class _Stub:
    """Says of every attempt that it runs."""

    identity = _Identity()

    async def observe(self, attempts: Collection[AttemptId] | None) -> dict[AttemptId, Observation]:
        """RUNNING, with two GPUs each."""
        gpus = ("GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000")
        return {a: Seen(phase=Phase.RUNNING, at=time.time(), node="stub", gpus=gpus) for a in attempts or ()}


async def _serve(folder: Path) -> None:
    console = (folder / CONSOLE_FILE).read_text()
    tls = build_server_context(folder / NODE_FILE, console[console.index("-----BEGIN CERTIFICATE") :])
    config = uvicorn.Config(
        build_app(_Stub()),  # type: ignore[arg-type]  # what of a Node the routes under test ask for
        loop="asyncio",
        http="h11",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=75,
        ssl_context_factory=lambda _config, _default: tls,
    )
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        unfinished = folder / ".port"
        unfinished.write_text(str(listener.getsockname()[1]))
        unfinished.replace(folder / PORT_FILE)
        await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
