"""What lies in the wheelhouse, and what one kind of machine gets of it."""

import os
from pathlib import Path

import pytest

from server.tests.wheels.builders import make_own, make_wheel, pin
from starforge import __version__
from starforge.errors import NotFound
from starforge_console.wheels.index import WheelIndex, build_lock_text, explain_unsupplied, select_wheels
from starforge_console.wheels.targets import Target

HERE = Target("3.11", "x86_64")


def test_only_files_with_the_name_of_a_wheel_are_seen(tmp_path: Path) -> None:
    make_wheel(tmp_path, "alpha", "1.0")
    for name in ("ledger.db", "a.whl", ".alpha-1.0-py3-none-any.whl.17", "alpha-1.0.tar.gz"):
        (tmp_path / name).write_text("")
    (tmp_path / "beta-1.0-py3-none-any.whl").mkdir()
    (tmp_path / "gamma-1.0-py3-none-any.whl").symlink_to("/etc/passwd")
    assert [wheel.path.name for wheel in WheelIndex(tmp_path).list_wheels()] == ["alpha-1.0-py3-none-any.whl"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert WheelIndex(tmp_path / "none").list_wheels() == []


def test_a_file_is_read_again_when_it_has_changed_and_only_then(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "alpha", "1.0")
    index = WheelIndex(tmp_path)
    (first,) = index.list_wheels()
    assert index.list_wheels()[0] is first
    make_wheel(tmp_path, "alpha", "1.0", content="x = 1\n")
    os.utime(path, ns=(1, 1))
    (second,) = index.list_wheels()
    assert second.digest != first.digest
    path.unlink()
    assert index.list_wheels() == []


def test_of_several_fitting_files_the_most_particular_is_chosen(tmp_path: Path) -> None:
    tags = ["py3-none-any", "cp311-abi3-manylinux2014_x86_64", "cp311-cp311-manylinux_2_28_x86_64"]
    paths = [make_wheel(tmp_path, "alpha", "1.0", tag) for tag in (*tags, "cp311-cp311-manylinux_2_34_x86_64")]
    pins = [pin(path, "alpha", "1.0") for path in paths]
    known = pins[0].__class__("alpha", "1.0", "", frozenset().union(*(one.digests for one in pins)))
    chosen = select_wheels(WheelIndex(tmp_path).list_wheels(), [known], HERE).chosen["alpha"]
    assert chosen.path == paths[2]


def test_the_lock_text_names_release_installer_and_every_other_file_by_digest(tmp_path: Path) -> None:
    installer, alpha = make_wheel(tmp_path, "pip", "26.3"), make_wheel(tmp_path, "alpha", "1.0")
    make_own(tmp_path)
    pins = [pin(installer, "pip", "26.3"), pin(alpha, "alpha", "1.0")]
    selection = select_wheels(WheelIndex(tmp_path).list_wheels(), pins, HERE)
    lines = build_lock_text(selection).splitlines()
    assert lines[0] == f"# starforge-forgelet {__version__}"
    assert lines[1] == f"# pip-26.3-py3-none-any.whl {next(iter(pins[0].digests))}"
    assert [line.split(" --hash=sha256:")[0] for line in lines[2:]] == [
        "alpha==1.0",
        f"starforge-core=={__version__}",
        f"starforge-forgelet=={__version__}",
    ]


def test_a_file_that_the_release_does_not_name_counts_as_missing(tmp_path: Path) -> None:
    alpha = make_wheel(tmp_path, "alpha", "1.0")
    pins = [pin(alpha, "alpha", "1.0")]
    make_wheel(tmp_path, "alpha", "1.0", content="import evil\n")
    make_own(tmp_path)
    with pytest.raises(NotFound) as caught:
        build_lock_text(select_wheels(WheelIndex(tmp_path).list_wheels(), pins, HERE))
    assert caught.value.why == "missing: alpha 1.0"
    assert caught.value.next_step.endswith("starforge-console wheelhouse add --python 3.11 --arch x86_64")


def test_our_own_wheels_of_another_release_count_as_missing(tmp_path: Path) -> None:
    make_own(tmp_path, "0.0.1")
    missing = select_wheels(WheelIndex(tmp_path).list_wheels(), [], HERE).missing
    assert missing == (f"starforge-core {__version__}", f"starforge-forgelet {__version__}")


def test_a_console_without_wheels_for_any_machine_says_what_to_run(tmp_path: Path) -> None:
    alpha = make_wheel(tmp_path / "elsewhere", "alpha", "1.0")
    pins = [pin(alpha, "alpha", "1.0")]
    make_own(tmp_path)
    told = explain_unsupplied(WheelIndex(tmp_path).list_wheels(), pins)
    assert "starforge-console wheelhouse add --python 3.11 --arch x86_64" in told
    make_wheel(tmp_path, "alpha", "1.0")
    assert explain_unsupplied(WheelIndex(tmp_path).list_wheels(), pins) == ""
