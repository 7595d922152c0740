"""Small git work trees, and a copy of this repository's sources, to plant violations in."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def build_tree(folder: Path, files: dict[str, str]) -> Path:
    """Makes `folder` a git work tree with these files; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def copy_sources(folder: Path) -> Path:
    """Copies the configuration and the three packages' sources into `folder`; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for member, module in (("core", "starforge"), ("server", "starforge_console"), ("forgelet", "starforge_forgelet")):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / member / module, folder / member / module, ignore=ignored)
    return folder
