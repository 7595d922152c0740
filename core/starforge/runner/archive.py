"""Builds runner.pex: the same bytes from the same sources and by the same Python, from any path and at any time.

It runs on the console's side and is no part of the archive. Beside each source lies its code, compiled by the Python
that builds the archive. An image with the same minor version takes that, which is more than half of a start; every
other version finds a number of another version in it and takes the source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import zipfile
from pathlib import Path
from typing import Dict, Optional

_PACKAGE = Path(__file__).resolve().parent.parent
_STORED_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_WITHOUT_REFERENCES = 2  # of marshal's: which parts refer to one another depends on what else the process has imported
_UNCHECKED = 1  # of PEP 552: code that is told apart by a hash of its source, and is not compared with it when imported
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
    content = build_archive(add_compiled(collect_sources()))
    partial = target.with_name(target.name + ".tmp")
    partial.write_bytes(content)
    os.replace(partial, target)
    return hashlib.sha256(content).hexdigest()


def load_bootstrap() -> str:
    """Give the text of bootstrap.sh."""
    return (_PACKAGE / "runner" / "bootstrap.sh").read_text(encoding="utf-8")


def collect_sources() -> Dict[str, bytes]:
    """Read what belongs into the archive, by its name there. Raises OSError."""
    sources = [_PACKAGE / "__init__.py", _PACKAGE / "reporting.py"]
    sources += [_PACKAGE / "contract" / "__init__.py", _PACKAGE / "contract" / "capsule.py"]
    sources += [_PACKAGE / "contract" / "bounds.py"]
    sources += [path for path in (_PACKAGE / "runner").glob("*.py") if path.name != Path(__file__).name]
    files = {f"starforge/{path.relative_to(_PACKAGE).as_posix()}": path.read_bytes() for path in sources}
    files["hook/sitecustomize.py"] = (_PACKAGE / "runner" / "hook" / "sitecustomize.py").read_bytes()
    files["__main__.py"] = _MAIN
    return files


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


def add_compiled(files: Dict[str, bytes]) -> Dict[str, bytes]:
    """Give the files, and beside each module the code of it. What starts the archive is looked for as source alone."""
    sources = {name: content for name, content in files.items() if name.endswith(".py") and name != "__main__.py"}
    compiled = {f"{name}c": _find_compiled(name, content) for name, content in sources.items()}
    return {**files, **{name: content for name, content in compiled.items() if content is not None}}


def _find_compiled(name: str, source: bytes) -> Optional[bytes]:
    """Compile as `py_compile` does. None where that cannot be written so: newer Pythons have constants of their own."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    head = importlib.util.MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + importlib.util.source_hash(source)
    try:
        return head + marshal.dumps(code, _WITHOUT_REFERENCES)
    except ValueError:
        return None
