"""A small container image made from this machine's own bash and Python, so that nothing needs a registry.

    python tools/host_image.py --socket /run/docker.sock --name starforge-demo:1

The root file system is packed once into a tar in the cache directory and imported into the engine from there. It holds
bash, a few file tools and a Python of at least 3.8 with its standard library; any user id can run it.
"""

import argparse
import hashlib
import http.client
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

_LAYOUT: Final = "4"
"""Part of the cache's key: raise it when what goes into the tar changes."""

_TOOLS: Final = (
    "cat ls sleep echo mkdir rm cp mv ln date id uname sed grep head tail sort true false kill test touch chmod tee"
    " timeout nproc hostname env dd stat sha256sum wc tr cut mktemp dirname basename readlink"
).split()
_ASK_PYTHON: Final = (
    "import json,sys,sysconfig;print(json.dumps([sys.version_info[:2],sys.executable,sysconfig.get_path('stdlib')]))"
)
_OLDEST_PYTHON: Final = [3, 8]
_LEFT_OUT: Final = ("test", "tests", "__pycache__", "idlelib", "lib2to3", "site-packages", "dist-packages", "tkinter")
_PASSWD: Final = b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/tmp:/bin/bash\n"
_GROUP: Final = b"root:x:0:\nnogroup:x:65534:\n"
_CERTIFICATES: Final = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into the image beside the file tools."""

    bash: bool = True
    python: bool = True


@dataclass(frozen=True, slots=True)
class HostPython:
    """An interpreter of this machine and where its standard library lies."""

    executable: Path
    library: Path
    version: tuple[int, int]


def make_image(socket_path: str, name: str, contents: Contents = Contents()) -> str:
    """Import the image as `name` (repository:tag) into the engine at `socket_path`; gives the image's id."""
    repository, _, tag = name.rpartition(":")
    query = urlencode({"fromSrc": "-", "repo": repository, "tag": tag, "changes": "ENV PATH=/usr/bin:/bin"})
    connection = http.client.HTTPConnection("engine", timeout=120)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(120)
    connection.sock.connect(socket_path)
    try:
        with find_or_build_tar(contents).open("rb") as tar:
            connection.request("POST", "/images/create?" + query, tar, {"Content-Type": "application/x-tar"})
            response = connection.getresponse()
            lines = [json.loads(line) for line in response.read().splitlines() if line]
    finally:
        connection.close()
    if response.status != http.client.OK or not lines or "status" not in lines[-1]:
        raise SystemExit(f"the engine at {socket_path} did not import {name}: {response.status} {lines}")
    return str(lines[-1]["status"])


def find_or_build_tar(contents: Contents = Contents()) -> Path:
    """The packed root file system from the cache, built first if it is not there."""
    python = load_host_python() if contents.python else None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "starforge-images"
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"rootfs-{_key_of(contents, python)}.tar"
    if path.exists():
        return path
    unfinished = path.with_suffix(f".{os.getpid()}")
    with tarfile.open(unfinished, "w") as tar:
        _pack(tar, contents, python)
    unfinished.replace(path)  # several processes may build at once; each result is whole
    return path


def load_host_python() -> HostPython:
    """The system's Python, or the one that runs this, if it is at least 3.8."""
    for candidate in ("/usr/bin/python3", getattr(sys, "_base_executable", sys.executable)):
        if not Path(candidate).exists():
            continue
        asked = subprocess.run([candidate, "-I", "-c", _ASK_PYTHON], capture_output=True, check=True, text=True)
        version, executable, library = json.loads(asked.stdout)
        if version >= _OLDEST_PYTHON:
            return HostPython(Path(executable).resolve(), Path(library), (version[0], version[1]))
    raise SystemExit("no Python of at least 3.8 is on this machine to make an image from")


def for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A filter of `tarfile`: root's own, and readable for every user."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode |= 0o555 if member.isdir() or member.mode & stat.S_IXUSR else 0o444
    return member


def _key_of(contents: Contents, python: HostPython | None) -> str:
    bash = Path(_locate("bash")).stat()
    parts = [_LAYOUT, repr(contents), repr(python), str(bash.st_mtime_ns)]
    if python is not None:
        parts.append(str(python.executable.stat().st_mtime_ns))
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def _pack(tar: tarfile.TarFile, contents: Contents, python: HostPython | None) -> None:
    for folder, mode in (("tmp", 0o1777), ("root", 0o700), ("etc", 0o755), ("proc", 0o755), ("sys", 0o755)):
        _add_folder(tar, folder, mode)
    _add_bytes(tar, "etc/passwd", _PASSWD)
    _add_bytes(tar, "etc/group", _GROUP)
    programs = {f"usr/bin/{tool}": found for tool in _TOOLS if (found := shutil.which(tool))}
    if contents.bash:
        programs |= {"usr/bin/bash": _locate("bash"), "bin/bash": _locate("bash"), "bin/sh": _locate("sh")}
    if python is not None:
        programs[_inside(python.executable)] = str(python.executable)
    for target, source in programs.items():
        _add_file(tar, source, target)
    libraries = set(_libraries_of(programs.values()))
    if python is not None:
        libraries |= set(_pack_python(tar, python))
    for library in sorted(libraries):
        _add_file(tar, library, library.lstrip("/"))
    if Path(_CERTIFICATES).exists():
        _add_file(tar, _CERTIFICATES, _CERTIFICATES.lstrip("/"))


def _pack_python(tar: tarfile.TarFile, python: HostPython) -> Iterator[str]:
    tar.add(python.library, _inside(python.library), filter=_without_the_unneeded)
    for name in ("python3", f"python{python.version[0]}.{python.version[1]}"):
        if f"usr/bin/{name}" != _inside(python.executable):
            link = tarfile.TarInfo(f"usr/bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, str(python.executable)
            tar.addfile(link)
    yield from _libraries_of(str(path) for path in (python.library / "lib-dynload").glob("*.so"))


def _without_the_unneeded(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    last = member.name.rsplit("/", 1)[-1]
    if last in _LEFT_OUT or last.startswith("config-"):
        return None
    return for_everybody(member)


def _libraries_of(programs: Iterable[str]) -> Iterator[str]:
    for program in programs:
        asked = subprocess.run(["ldd", program], capture_output=True, check=False, text=True)
        for word in asked.stdout.split():
            if word.startswith("/") and ".so" in word:
                yield word


def _locate(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise SystemExit(f"{program} is not on this machine: the image cannot be made without it")
    return found


def _inside(path: Path) -> str:
    return str(path).lstrip("/")


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    tar.addfile(entry)


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    tar.addfile(entry, io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, source: str, target: str) -> None:
    real = Path(source).resolve()
    entry = tarfile.TarInfo(target)
    entry.size = real.stat().st_size
    entry.mode = 0o755 if os.access(real, os.X_OK) else 0o644
    with real.open("rb") as content:
        tar.addfile(entry, content)


def main() -> None:
    """Make the image and say its id."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--socket", default="/var/run/docker.sock", help="the engine's socket")
    parser.add_argument("--name", required=True, help="repository:tag to give to the image")
    given = parser.parse_args()
    print(make_image(given.socket, given.name))


if __name__ == "__main__":
    main()
