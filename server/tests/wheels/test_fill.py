"""Filling the wheelhouse with the real pip, from a folder in place of an index."""

from pathlib import Path

import pytest

from server.tests.wheels.builders import make_own, make_wheel, pin
from starforge.errors import InputError, NotFound, Unavailable
from starforge_console.wheels.fill import add_own, add_target, check_target, require_target
from starforge_console.wheels.index import WheelIndex
from starforge_console.wheels.lock import Pin
from starforge_console.wheels.targets import TARGETS, Target

FOREIGN = Target("3.13", "aarch64")


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip finds, and nothing else."""
    folder = tmp_path / "offered"
    folder.mkdir()
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}.items():
        monkeypatch.setenv(name, value)
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_exactly_what_the_machine_needs_is_downloaded_and_only_once(offered: Path, tmp_path: Path) -> None:
    wanted = make_wheel(offered, "alpha", "1.0", "cp313-cp313-manylinux2014_aarch64")
    make_wheel(offered, "alpha", "1.0", "cp311-cp311-manylinux2014_x86_64")
    make_wheel(offered, "alpha", "1.1")
    other = make_wheel(offered, "beta", "2.0")
    pins = [pin(wanted, "alpha", "1.0"), pin(other, "beta", "2.0", "python_version < '3.12'")]
    house = tmp_path / "wheelhouse"
    assert add_target(house, FOREIGN, pins) == [wanted.name]
    assert names(house) == [wanted.name]
    assert (house.stat().st_mode & 0o777, (house / wanted.name).stat().st_mode & 0o777) == (0o700, 0o644)
    wanted.unlink()
    assert add_target(house, FOREIGN, pins) == []


def test_a_file_with_another_digest_is_refused_and_nothing_is_kept(offered: Path, tmp_path: Path) -> None:
    good = make_wheel(offered, "alpha", "1.0")
    changed = make_wheel(offered, "beta", "1.0")
    pins = [pin(good, "alpha", "1.0"), Pin("beta", "1.0", "", frozenset({"0" * 64}))]
    with pytest.raises(Unavailable) as caught:
        add_target(tmp_path / "wheelhouse", FOREIGN, pins)
    assert changed.name in caught.value.why or "HASHES" in caught.value.why
    assert names(tmp_path / "wheelhouse") == []


def test_a_target_is_complete_with_our_own_wheels_alone(tmp_path: Path) -> None:
    house = tmp_path / "wheelhouse"
    installer = make_wheel(house, "pip", "26.3")
    pins = [pin(installer, "pip", "26.3")]
    with pytest.raises(NotFound, match=r"no wheels for Python 3\.13 on aarch64"):
        check_target(house, FOREIGN, pins)
    make_own(tmp_path / "release")
    add_own(house, tmp_path / "release")
    check_target(house, FOREIGN, pins)


@pytest.mark.parametrize("version", ["0.0.1", None])
def test_a_folder_without_this_releases_wheels_is_refused(tmp_path: Path, version: str | None) -> None:
    if version is not None:
        make_own(tmp_path / "release", version)
    with pytest.raises(InputError, match=r"holds no wheel of starforge-core .* and of starforge-forgelet"):
        add_own(tmp_path / "wheelhouse", tmp_path / "release")


def test_from_a_source_tree_our_own_wheels_are_built(tmp_path: Path) -> None:
    assert [name.split("-")[0] for name in add_own(tmp_path, None)] == ["starforge_core", "starforge_forgelet"]
    assert {wheel.project for wheel in WheelIndex(tmp_path).list_wheels()} == {"starforge-core", "starforge-forgelet"}


def test_a_combination_that_is_not_installed_is_refused_by_name() -> None:
    with pytest.raises(NotFound, match=r"Python 3\.10 on riscv64"):
        require_target("3.10", "riscv64", TARGETS)
