"""The daemon's systemd unit."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from starforge_forgelet.unit import Installed, build_unit

FORGELET = Path(sys.executable).with_name("forgelet")


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FORGELET, "unit", *words], capture_output=True, text=True, timeout=60, check=False)


def test_what_stands_between_the_daemon_and_its_containers_is_as_it_must_be() -> None:
    lines = build_unit(Installed(port=7070)).splitlines()
    wanted = {
        "ExecStart=/opt/starforge/forgelet/current/bin/forgelet serve --port 7070",
        'Environment="FORGE_NODE_STATE_DIR=/var/lib/starforge-forgelet"',
        "StateDirectory=starforge-forgelet",
        "StateDirectoryMode=0700",
        "Restart=always",
        "StartLimitIntervalSec=0",
        "KillMode=mixed",
        "RuntimeDirectoryPreserve=yes",
        "EnvironmentFile=-/etc/starforge/forgelet.env",
    }
    assert wanted <= set(lines)
    keys = {line.partition("=")[0] for line in lines}
    assert not keys & {"Requires", "BindsTo", "PrivateTmp", "PrivateDevices", "ProtectHome", "RequiresMountsFor"}


def test_other_folders_another_port_and_a_private_ca_stand_in_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("certificate")
    words = ("--prefix", "/srv/100%", "--state-dir", "/srv/state", "--port", "7171", "--ca", str(tmp_path / "ca.pem"))
    shown = _call(*words).stdout
    assert "ExecStart=/srv/100%%/current/bin/forgelet serve --port 7171\n" in shown
    assert f'Environment="FORGE_NODE_STATE_DIR=/srv/state" "SSL_CERT_FILE={tmp_path}/ca.pem"\n' in shown
    assert "StateDirectory" not in shown


@pytest.mark.parametrize("content", [None, ""])
def test_a_ca_file_that_is_empty_or_absent_counts_as_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    assert "SSL_CERT_FILE" not in _call("--ca", str(tmp_path / "ca.pem")).stdout


@pytest.mark.parametrize("path", ["relative", "/with blank", '/with"quote', "/with\nline"])
def test_a_path_that_a_unit_cannot_hold_is_refused(path: str) -> None:
    done = _call("--prefix", path)
    assert (done.returncode, "cannot stand in a unit" in done.stderr) == (2, True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_has_nothing_to_say_about_it(tmp_path: Path) -> None:
    program = tmp_path / "prefix" / "current" / "bin" / "forgelet"
    program.parent.mkdir(parents=True)
    program.symlink_to("/bin/true")  # systemd looks whether the program is there
    (tmp_path / "starforge-forgelet.service").write_text(_call("--prefix", str(tmp_path / "prefix")).stdout)
    words = ["systemd-analyze", "verify", str(tmp_path / "starforge-forgelet.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
