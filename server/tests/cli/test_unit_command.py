from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from starforge_console.cli.main import main
from starforge_console.cli.unit import Served, build_unit

SERVED = {
    "program": Path("/opt/starforge/venv/bin/starforge-console"),
    "state": Path("/var/lib/starforge"),
    "storage": Path("/srv/starforge"),
    "secrets": Path("/run/starforge"),
}


def build(**changed: Any) -> list[str]:
    return build_unit(Served(**{"has_gpus": False, **SERVED, **changed})).splitlines()


def print_unit(*options: str, **settings: str) -> Result:
    env = {
        "FORGE_STORAGE_ROOT": "/srv/starforge",
        "FORGE_CONSOLE_STATE_DIR": "/var/lib/starforge",
        "FORGE_SECRETS_DIR": "/run/starforge",
        **settings,
    }
    return CliRunner().invoke(main, ["unit", *options], env=env)


def test_the_console_may_write_its_own_folders_and_no_others() -> None:
    lines = build()
    assert "ProtectSystem=strict" in lines
    assert [line for line in lines if line.startswith("ReadWritePaths=")] == [
        "ReadWritePaths=/srv/starforge",
        "ReadWritePaths=-/run/lock",
    ]
    assert {"StateDirectory=starforge", "RuntimeDirectory=starforge", "RuntimeDirectoryPreserve=yes"} <= set(lines)


def test_folders_elsewhere_are_named() -> None:
    lines = build(state=Path("/data/state"), secrets=Path("/dev/shm/starforge"))  # noqa: S108 - a path in a text
    assert {"ReadWritePaths=/data/state", "ReadWritePaths=/dev/shm/starforge"} <= set(lines)
    assert not any(line.startswith(("StateDirectory=", "RuntimeDirectory=")) for line in lines)


@pytest.mark.parametrize("member", ["program", "storage", "state"])
def test_home_directories_can_be_read_where_something_of_the_consoles_lies_in_one(member: str) -> None:
    assert "ProtectHome=yes" in build()
    assert "ProtectHome=read-only" in build(**{member: Path("/home/ada/forge")})


def test_devices_are_seen_where_a_driver_is_asked_alone() -> None:
    assert "PrivateDevices=yes" in build()
    assert "PrivateDevices=yes" not in build(has_gpus=True)


def test_a_percent_sign_is_no_word_of_systemds() -> None:
    assert "ReadWritePaths=/srv/100%%" in build(storage=Path("/srv/100%"))


@pytest.mark.parametrize("ports", [(443, 7081), (7080, 80), (1023, 1)])
def test_low_ports_are_listened_on_with_the_one_capability_that_they_take(ports: tuple[int, ...]) -> None:
    lines = build(ports=ports)
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE" in lines
    (bounding,) = (line for line in lines if line.startswith("CapabilityBoundingSet="))
    assert bounding.endswith(" CAP_NET_BIND_SERVICE")


@pytest.mark.parametrize("ports", [(), (7080, 7081), (1024, 0)])
def test_other_ports_take_none(ports: tuple[int, ...]) -> None:
    lines = build(ports=ports)
    assert "AmbientCapabilities=" in lines
    assert not any("CAP_NET_BIND_SERVICE" in line for line in lines)


def test_the_ports_are_those_of_the_settings() -> None:
    assert "CAP_NET_BIND_SERVICE" in print_unit(FORGE_LISTEN="0.0.0.0:443").stdout
    assert "CAP_NET_BIND_SERVICE" in print_unit(FORGE_INGEST_LISTEN="[::]:80").stdout
    assert "CAP_NET_BIND_SERVICE" not in print_unit().stdout


def test_the_command_prints_the_unit_of_its_settings() -> None:
    done = print_unit("--settings-file", "/etc/forge.env", FORGE_GPU_RUNTIME="none")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"EnvironmentFile=/etc/forge.env", "PrivateDevices=yes", "ReadWritePaths=/srv/starforge"} <= set(lines)
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start.endswith("/starforge-console serve")


def test_machines_that_joined_ask_their_own_drivers() -> None:
    assert "PrivateDevices=yes" not in print_unit(FORGE_GPU_RUNTIME="nvidia").stdout
    assert "PrivateDevices=yes" in print_unit(FORGE_GPU_RUNTIME="nvidia", FORGE_DEFAULT_FLEET_KIND="node").stdout


@pytest.mark.parametrize(
    "path", ["/srv/two words", '/srv/"', "/srv/a:b", "/srv/it's", "/srv/$HOME", "/srv/a\\b", "/srv/\x1b", "/srv/\u2028"]
)
def test_a_path_that_a_unit_cannot_hold_is_refused(path: str) -> None:
    done = print_unit(FORGE_STORAGE_ROOT=path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{path!r} cannot stand in a unit" in done.stderr
    assert "dollar" in done.stderr
