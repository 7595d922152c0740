"""The registry that most of the world runs (CNCF distribution), as a process on loopback, open or behind a login."""

import base64
import contextlib
import hashlib
import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.support.console import find_free_port, wait_for

BINARY: Final = shutil.which("docker-registry")
USER: Final = "puller"
PASSWORD: Final = "pw"  # noqa: S105 - made up; the registry below takes it
_HASHED: Final = "$2y$05$abcdefghijklmnopqrstuuHIrMEWpUCQe2YqFR3sXwQ75u4od..9q"
"""PASSWORD, as htpasswd writes it."""
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A running registry. `address` is HOST:PORT, as images name it."""

    address: str
    authorization: str = ""

    def push(self, repository: str, tag: str, mark: str) -> str:
        """Put an image without layers there, whose content differs by `mark`; gives its digest."""
        config = json.dumps({"architecture": "amd64", "os": "linux", "mark": mark}).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": _digest(config), "size": len(config)},
            "layers": [],
        }
        begun = self._send("POST", f"/v2/{repository}/blobs/uploads/")
        place = begun["Location"]
        joint = "&" if "?" in place else "?"
        octets = {"Content-Type": "application/octet-stream"}
        self._send("PUT", f"{place}{joint}digest={_digest(config)}", config, octets)
        content = json.dumps(manifest).encode()
        self._send("PUT", f"/v2/{repository}/manifests/{tag}", content, {"Content-Type": MANIFEST})
        return _digest(content)

    def _send(
        self, method: str, place: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, str]:
        url = place if place.startswith("http") else f"http://{self.address}{place}"
        signed = {"Authorization": self.authorization} if self.authorization else {}
        request = urllib.request.Request(url, body, {**signed, **(headers or {})}, method=method)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
            return dict(answer.headers)


@contextlib.contextmanager
def distribution(folder: Path, *, login: bool = False) -> Iterator[Distribution]:
    """A registry that keeps its files in `folder`; with `login` it lets in USER with PASSWORD alone."""
    if BINARY is None:
        raise FileNotFoundError("docker-registry")
    address = f"127.0.0.1:{find_free_port()}"
    config = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": address},
    }
    if login:
        (folder / "htpasswd").write_text(f"{USER}:{_HASHED}\n", encoding="ascii")
        config["auth"] = {"htpasswd": {"realm": "registry", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(config), encoding="ascii")  # JSON is YAML
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [BINARY, "serve", str(folder / "config.yml")], stdout=log, stderr=log, env={"OTEL_TRACES_EXPORTER": "none"}
        )
        try:
            wait_for(lambda: _answers(address), "the registry to answer")
            signed = "Basic " + _encode(f"{USER}:{PASSWORD}") if login else ""
            yield Distribution(address, signed)
        finally:
            process.terminate()
            process.wait(10)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
