"""Builds runner.pex: the same bytes from the same sources, on every machine, from any path and at any time.

It runs on the console's side and is no part of the archive.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Dict

_PACKAGE = Path(__file__).resolve().parent.parent
_STORED_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_MAIN = b"""import os
import sys

# The archive under a name that holds whatever the job does to the file's own: imports go on from the open descriptor.
opened = "/proc/self/fd/%d" % os.open(sys.argv[0], os.O_RDONLY)
if os.path.abspath(sys.path[0]) == os.path.abspath(sys.argv[0]) and os.path.isfile(opened):
    sys.path[0] = opened

from starforge.runner.main import main

code = main(sys.argv)
sys.stdout.flush()
os._exit(code)  # threads that hang in the network or in storage are not waited for
"""


def build_runner(target: Path) -> str:
    """Write the archive to `target`, by rename, and give its sha256 in hex. Raises OSError."""
    content = build_archive(_collect())
    partial = target.with_name(target.name + ".tmp")
    partial.write_bytes(content)
    os.replace(partial, target)
    return hashlib.sha256(content).hexdigest()


def load_bootstrap() -> str:
    """Give the text of bootstrap.sh."""
    return (_PACKAGE / "runner" / "bootstrap.sh").read_text(encoding="utf-8")


def build_archive(files: Dict[str, bytes]) -> bytes:
    """Pack the files in the order of their names, stored as they are: compressors differ."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _STORED_TIME)
            entry.create_system = 3  # Unix, also when built elsewhere
            entry.external_attr = _MODE
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def _collect() -> Dict[str, bytes]:
    sources = [_PACKAGE / "__init__.py", _PACKAGE / "reporting.py"]
    sources += [_PACKAGE / "contract" / "__init__.py", _PACKAGE / "contract" / "capsule.py"]
    sources += [_PACKAGE / "contract" / "bounds.py"]
    sources += [path for path in (_PACKAGE / "runner").glob("*.py") if path.name != Path(__file__).name]
    files = {f"starforge/{path.relative_to(_PACKAGE).as_posix()}": path.read_bytes() for path in sources}
    files["hook/sitecustomize.py"] = (_PACKAGE / "runner" / "hook" / "sitecustomize.py").read_bytes()
    files["__main__.py"] = _MAIN
    return files
