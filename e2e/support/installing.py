"""A console that machines install forgelet from: its wheelhouse filled, and its own wheels changed as a test wants."""

import base64
import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess
from e2e.support.engines import PrivateEngine

CACHE: Final = Path(__file__).parents[2] / "build" / "wheels"
_OWN: Final = "starforge_*.whl"


@dataclass(frozen=True, slots=True)
class Site:
    """The console, the folder where its wheels lie, and one of its fleets."""

    console: ConsoleProcess
    admin: str
    python: str
    fleet: str = ""

    @property
    def wheelhouse(self) -> Path:
        return self.console.folder / "state" / "wheelhouse"

    def with_fleet(self, name: str) -> "Site":
        """The same with a new fleet: machines of other tests are no part of it."""
        self.console.sf("fleet", "create", name, "--kind", "node")
        return replace(self, fleet=name)

    def new_token(self) -> str:
        """A new join token."""
        return str(json.loads(self.console.sf("fleet", "token", self.fleet, "--json").stdout)["token"])

    def nodes(self) -> list[dict[str, object]]:
        """What the console says of the fleet's nodes."""
        found: list[dict[str, object]] = self.console.get(f"/api/v1/fleets/{self.fleet}", self.admin)["nodes"]
        return found

    def status(self, name: str) -> str:
        """What the console says of one node."""
        return str(next((node["status"] for node in self.nodes() if node["name"] == name), "missing"))

    def joining(self) -> dict[str, str]:
        """What the pasted line gives to the script."""
        return {"FORGE_FLEET": self.fleet, "FORGE_JOIN_TOKEN": self.new_token()}

    def fill(self) -> None:
        """Third-party wheels are downloaded once for all runs, as `make dev` does it; our own are built anew."""
        CACHE.mkdir(parents=True, exist_ok=True)
        self.wheelhouse.mkdir(mode=0o700, exist_ok=True)
        for wheel in CACHE.glob("*.whl"):
            shutil.copy(wheel, self.wheelhouse)
        self.console.admin("wheelhouse", "add", "--python", self.python)
        for wheel in self.wheelhouse.glob("*.whl"):
            if wheel.match(_OWN) or (CACHE / wheel.name).exists():
                continue
            unfinished = CACHE / f".{wheel.name}.{os.getpid()}"
            shutil.copy(wheel, unfinished)
            unfinished.replace(CACHE / wheel.name)

    def change_forgelet(self, member: str, *, before: str = "", after: str = "") -> None:
        """Serve another forgelet of the same release: text put before or after one of its modules."""
        wheel = next(self.wheelhouse.glob("starforge_forgelet-*.whl"))
        rewrite_wheel(wheel, f"starforge_forgelet/{member}", before, after)


def build_site(folder: Path, engine: PrivateEngine, python: str) -> Site:
    """A console that machines on `engine` reach, with the wheels for `python`. Close its console."""
    console = ConsoleProcess(folder, "/nonexistent.sock", {"FORGE_DEFAULT_FLEET_KIND": "node"})
    console.environment |= {
        "FORGE_LISTEN": f"0.0.0.0:{console.port}",
        "FORGE_PUBLIC_URL": f"http://{engine.gateway}:{console.port}",
        "FORGE_INGEST_URL": f"http://{engine.gateway}:{console.ingest_port}",
        "FORGE_NODE_HEARTBEAT_S": "1",
        "FORGE_RECONCILE_S": "2",
    }
    try:
        console.init()
        admin = console.token("--scopes", "read,submit,admin")
        console.sf("login", "--server", console.url, typed=admin)
        site = Site(console, admin, python)
        site.fill()
    except BaseException:
        console.close()
        raise
    return site


def rewrite_wheel(wheel: Path, member: str, before: str, after: str) -> None:
    """Replace a module in a wheel, and its digest in the wheel's own list."""
    changed = wheel.with_name(f".{wheel.name}.changed")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        text = f"{before}{old.read(member).decode()}{after}".encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        for name in old.namelist():
            content = text if name == member else old.read(name)
            if name.endswith(".dist-info/RECORD"):
                lines = content.decode().splitlines()
                lines = [f"{member},sha256={digest},{len(text)}" if it.startswith(f"{member},") else it for it in lines]
                content = "\n".join([*lines, ""]).encode()
            new.writestr(name, content)
    changed.replace(wheel)
