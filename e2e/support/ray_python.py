"""A Python with Ray that any user may run: fetched once for the host, and kept."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from e2e.support.owned import find_host_locks

RAY: Final = "ray[default]==2.60.0"
_BASE: Final = Path("/usr/bin/python3")
_FETCH_S: Final = 540


def find_ray_python() -> Path | None:
    """Its interpreter; None where none can be had."""
    if not _BASE.exists():
        return None
    home = Path(tempfile.gettempdir()) / "starforge-test-ray-2.60.0"
    python = home / "bin/python3"
    with (find_host_locks() / "ray.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "whole").exists():
            made = subprocess.run([_BASE, "-m", "venv", "--clear", home], check=False, capture_output=True)
            if made.returncode or not _fetch(python):
                return None
            for folder in (home, home / "bin"):
                folder.chmod(0o755)
            (home / "whole").touch()
    return python if os.access(python, os.X_OK) else None


def _fetch(python: Path) -> bool:
    words = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", RAY]
    try:
        return subprocess.run(words, check=False, capture_output=True, timeout=_FETCH_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False
