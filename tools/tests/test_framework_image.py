"""Images with frameworks: what cannot be fetched is said, and a build that died is no image."""

import tarfile
from pathlib import Path

import pytest

from tools.framework_image import CACHE, Frameworks, NotFetched, find_or_build_framework_tar


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the root of the tree, and no way to a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def _write_pins(place: Path, text: str) -> Frameworks:
    pins = place / "pins.txt"
    pins.write_text(text)
    return Frameworks("probe", pins)


def test_a_package_that_cannot_be_had_is_named_and_nothing_is_left(place: Path) -> None:
    with pytest.raises(NotFetched, match=r"pins\.txt cannot be fetched: .*nowhere-at-all==1"):
        find_or_build_framework_tar(_write_pins(place, "nowhere-at-all==1\n"))
    assert [path.name for path in CACHE.iterdir()] == ["probe.lock"]


def test_what_a_dead_build_left_is_removed_and_the_next_image_is_whole(place: Path) -> None:
    CACHE.mkdir(parents=True)
    (CACHE / "probe-0.unfinished").write_text("half")
    (CACHE / "probe-0.venv").mkdir()
    made = find_or_build_framework_tar(_write_pins(place, "# nothing\n"))
    assert sorted(path.name for path in CACHE.iterdir()) == sorted([made.name, "probe.lock"])
    with tarfile.open(made) as tar:
        assert {"usr/bin/bash", "opt/frameworks/bin/python", "opt/frameworks/pyvenv.cfg"} <= set(tar.getnames())


def test_an_image_is_made_once_and_anew_for_other_pins(place: Path) -> None:
    first = find_or_build_framework_tar(_write_pins(place, "# one\n"))
    written = first.stat().st_mtime_ns
    again = find_or_build_framework_tar(_write_pins(place, "# one\n"))
    assert (again, again.stat().st_mtime_ns) == (first, written)
    other = find_or_build_framework_tar(_write_pins(place, "# two\n"))
    assert (other != first, first.exists()) == (True, False)
