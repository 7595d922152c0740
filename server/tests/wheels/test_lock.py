"""The release's lock, and who needs what of it."""

import pytest

from starforge.errors import Bug
from starforge_console.wheels.lock import choose_pins, load_release_lock, parse_lock
from starforge_console.wheels.targets import TARGETS, Target, find_target

DIGEST = "0" * 64


def test_the_release_ships_pip_and_what_the_daemon_imports_for_every_kind_of_machine() -> None:
    pins = load_release_lock()
    for target in TARGETS:
        names = {pin.name for pin in choose_pins(pins, target)}
        assert {"pip", "click", "httpx2", "msgspec", "starlette", "uvicorn", "cryptography"} <= names
        assert "starforge-core" not in names
    assert all(pin.digests for pin in pins)


def test_a_marker_is_decided_for_the_machine_and_not_for_the_console() -> None:
    text = "".join(
        f"{name}==1 ; {marker} \\\n    --hash=sha256:{DIGEST}\n"
        for name, marker in {
            "old": "python_version < '3.12'",
            "new": "python_full_version >= '3.13'",
            "arm": "platform_machine == 'aarch64'",
            "odd": "sys_platform == 'win32'",
        }.items()
    )
    pins = parse_lock(text)
    assert [pin.name for pin in choose_pins(pins, Target("3.11", "x86_64"))] == ["old"]
    assert [pin.name for pin in choose_pins(pins, Target("3.13", "aarch64"))] == ["new", "arm"]


@pytest.mark.parametrize("line", ["click>=8", "click", "    --hash=md5:0", "-e .", f"    --hash=sha256:{DIGEST}"])
def test_a_line_that_is_no_pin_is_refused(line: str) -> None:
    with pytest.raises(Bug, match="line 1"):
        parse_lock(line)


def test_a_target_is_found_by_the_tag_that_a_machine_builds() -> None:
    assert find_target("cp311-x86_64") == Target("3.11", "x86_64")
    assert find_target("cp310-x86_64") is None
    assert find_target("../cp311-x86_64") is None


def test_a_wheel_for_a_newer_glibc_than_machines_have_is_none_for_them() -> None:
    platforms = Target("3.11", "x86_64").platforms
    assert {"manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64"} <= set(platforms)
    assert "manylinux_2_34_x86_64" not in platforms
    assert "manylinux1_aarch64" not in Target("3.11", "aarch64").platforms
