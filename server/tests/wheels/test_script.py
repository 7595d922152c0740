"""The script that the console hands out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from starforge.errors import Unavailable
from starforge_console.wheels.script import build_script, load_private_ca

CA = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----"


def test_an_odd_address_cannot_leave_its_quotes() -> None:
    script = build_script("http://x/$(touch${IFS}y)'\"/", None)
    (line,) = [line for line in script.splitlines() if line.startswith("URL=")]
    shown = subprocess.run(["sh", "-c", f'{line}; printf %s "$URL"'], capture_output=True, text=True, check=True)
    assert shown.stdout == "http://x/$(touch${IFS}y)'\""


def test_only_the_certificates_of_the_file_are_handed_out(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(f"-----BEGIN PRIVATE KEY-----\nQUJE\n-----END PRIVATE KEY-----\n{CA}\n# note\n{CA}\n")
    script = build_script("https://forge", file)
    assert f"\n{CA}\n{CA}\nEND_OF_CA\n" in script
    assert "PRIVATE" not in script
    assert "note" not in script.partition("END_OF_CA'")[2].partition("END_OF_CA")[0]


def test_a_private_ca_is_for_addresses_over_tls_alone(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text(f"# note\n{CA}\n")
    assert load_private_ca("https://ingest:7081", file) == CA
    assert load_private_ca("http://ingest:7081", file) is None
    assert load_private_ca("https://ingest:7081", None) is None


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_ca_file_without_a_certificate_is_refused_by_name(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(Unavailable, match=r"FORGE_PUBLIC_CA_FILE .*ca\.pem"):
        build_script("https://forge", tmp_path / "ca.pem")


@pytest.mark.parametrize("shell", [name for name in ("dash", "bash", "busybox") if shutil.which(name)])
def test_every_shell_can_read_it(shell: str) -> None:
    words = [shell, "sh"] if shell == "busybox" else [shell]
    read = subprocess.run(
        [*words, "-n"], input=build_script("http://x", None), text=True, capture_output=True, check=False
    )
    assert (read.returncode, read.stderr) == (0, "")
