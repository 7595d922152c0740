"""Small wheels for tests, with the names and tags of real ones."""

import hashlib
import zipfile
from pathlib import Path

from starforge import __version__
from starforge_console.wheels.index import OWN
from starforge_console.wheels.lock import Pin

PURE = "py3-none-any"


def make_wheel(folder: Path, project: str, version: str, tag: str = PURE, content: str = "") -> Path:
    """A wheel that pip takes for one."""
    folder.mkdir(parents=True, exist_ok=True)
    name = project.replace("-", "_")
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def make_own(folder: Path, version: str = __version__) -> list[Path]:
    """Our own wheels, as far as their names go."""
    return [make_wheel(folder, name, version) for name in OWN]


def pin(path: Path, project: str, version: str, marker: str = "") -> Pin:
    """The pin of that file."""
    return Pin(project, version, marker, frozenset({hashlib.sha256(path.read_bytes()).hexdigest()}))
