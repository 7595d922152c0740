"""forgelet's lock follows requirements.lock."""

import shutil
from pathlib import Path

from tools import node_lock

ROOT = Path(__file__).parents[2]


def copy_tree(folder: Path) -> Path:
    for name in ("requirements.lock", "core/pyproject.toml", "forgelet/pyproject.toml", str(node_lock.LOCK)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_the_lock_that_is_shipped_is_right() -> None:
    assert node_lock.find_violations(ROOT) == []


def test_another_version_in_requirements_lock_is_found(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    lock = tree / "requirements.lock"
    lock.write_text(lock.read_text().replace("\nmsgspec==", "\nmsgspec==9"))
    (violation,) = node_lock.find_violations(tree)
    assert "is not what requirements.lock says" in violation


def test_what_only_the_console_needs_is_left_out() -> None:
    lock = node_lock.build_lock(ROOT)
    assert "\nmsgspec==" in lock
    assert "fastapi" not in lock
    assert "pytest" not in lock


def test_a_marker_that_only_the_machine_could_decide_is_refused(tmp_path: Path) -> None:
    tree = copy_tree(tmp_path)
    lock = tree / "requirements.lock"
    version = next(line for line in lock.read_text().splitlines() if line.startswith("msgspec==")).split()[0]
    lock.write_text(lock.read_text().replace(version, f"{version} ; python_full_version < '3.11.5'"))
    assert any("tells releases of one Python version apart" in each for each in node_lock.find_violations(tree))
