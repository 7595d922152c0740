"""A console behind a certificate that only a private CA vouches for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.clean_machine import CleanMachine, clean_machine
from e2e.support.console import wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.front import Front, tls_front
from e2e.support.installing import Site

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture
def front(host: PrivateEngine, site: Site, tmp_path: Path) -> Iterator[Front]:
    """The site behind TLS; its console knows that address and no other."""
    environment = site.console.environment
    before = dict(environment)
    with tls_front(host.gateway, site.console.port, tmp_path / "front") as made:
        environment["FORGE_PUBLIC_URL"] = f"https://{host.gateway}:{made.port}"
        environment["FORGE_PUBLIC_CA_FILE"] = str(made.ca_file)
        site.console.restart()
        try:
            yield made
        finally:
            environment.clear()
            environment.update(before)
            site.console.restart()


def test_the_script_carries_the_ca_along_for_every_step_and_for_the_daemon(
    systemd_machine: CleanMachine, site: Site, front: Front
) -> None:
    machine = systemd_machine
    done = machine.install(site.console, **site.joining())
    assert done.returncode == 0, done.stderr
    assert "the console hears it" in done.stderr
    assert front.ca_file.read_text().strip() == machine.read("/opt/starforge/forgelet/console-ca.pem").strip()
    wait_for(lambda: site.status(machine.find_node()) == "ready", "the node to take jobs")


def test_without_the_ca_nothing_is_fetched(
    host: PrivateEngine, site: Site, front: Front, clean_root: Path, tmp_path: Path
) -> None:
    site.console.environment.pop("FORGE_PUBLIC_CA_FILE")
    site.console.restart()
    with clean_machine(host, tmp_path / "untrusting", clean_root, [site.console.storage]) as machine:
        done = machine.install(site.console, **site.joining())
        assert done.returncode == 1
        assert f"https://{host.gateway}:{front.port}/locks/" in done.stderr
        assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
