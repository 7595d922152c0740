"""The executor speaks to a real API server itself: over TLS, with a client certificate, and with no other."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.support.kube.real import RealApi
from starforge.errors import BackendUnreachable
from starforge_console.executors.kuberay.api import KubeApi
from starforge_console.executors.kuberay.settings import KubeSettings

pytestmark = pytest.mark.kube_real
RAYJOBS = "/apis/ray.io/v1/namespaces/training/rayjobs"


def ask(real: RealApi, folder: Path, cluster: Mapping[str, str], user: Mapping[str, str]) -> list[Any]:
    """What a client with such a kubeconfig is told of the namespace's RayJobs."""
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "current-context": "lab",
                "clusters": [{"name": "lab", "cluster": {"server": f"https://127.0.0.1:{real.port}", **cluster}}],
                "users": [{"name": "console", "user": user}],
                "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "console"}}],
            }
        )
    )
    settings = KubeSettings(
        fleet="cluster", install="i", namespace="training", state_dir=folder, claims={}, kubeconfig=config
    )

    async def go() -> list[Any]:
        api = KubeApi(settings)
        try:
            return (await api.list_all(RAYJOBS))[0]
        finally:
            await api.close()

    return asyncio.run(go())


def test_a_client_certificate_of_the_servers_authority_is_let_in(real_server: RealApi, tmp_path: Path) -> None:
    root = real_server.root
    user = {"client-certificate": str(root / "admin.crt"), "client-key": str(root / "admin.key")}
    assert ask(real_server, tmp_path, {"certificate-authority": str(root / "ca.crt")}, user) == []


def test_a_server_of_another_authority_is_told_nothing(real_server: RealApi, tmp_path: Path) -> None:
    root = real_server.root
    user = {"client-certificate": str(root / "admin.crt"), "client-key": str(root / "admin.key")}
    with pytest.raises(BackendUnreachable, match=r"(?i)certificate"):
        ask(real_server, tmp_path, {}, user)


def test_who_shows_no_certificate_learns_nothing(real_server: RealApi, tmp_path: Path) -> None:
    with pytest.raises(BackendUnreachable):
        ask(real_server, tmp_path, {"certificate-authority": str(real_server.root / "ca.crt")}, {})


def test_a_certificate_that_cannot_be_read_is_said_so(real_server: RealApi, tmp_path: Path) -> None:
    user = {"client-certificate": str(tmp_path / "none.crt"), "client-key": str(tmp_path / "none.key")}
    with pytest.raises(BackendUnreachable, match=r"none\.crt: no such file"):
        ask(real_server, tmp_path, {"certificate-authority": str(real_server.root / "ca.crt")}, user)
