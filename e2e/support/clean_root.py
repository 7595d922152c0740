"""A root file system as a fresh machine has it: Debian packages alone, copied from this machine's own, no network.

It has dash as sh, Python without pip or ensurepip, systemd, and neither curl nor wget. It is packed once.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "base-files base-passwd bash ca-certificates coreutils dash dbus debianutils grep hostname libc-bin mawk mount"
    " python3 sed systemd systemd-sysv util-linux"
).split()

_LAYOUT: Final = "2"
_RECURSE: Final = (
    "--recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances --installed"
).split()
_LEFT_OUT: Final = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")
_MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_COPIED: Final = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "ssl", "alternatives", "debian_version")
_LINKS: Final = {"usr/bin/sh": "dash", "usr/bin/awk": "mawk"}
_THIRD_SHELL: Final = "busybox"
"""Where it is installed it is in the root as ash, under that name alone."""


def find_obstacle() -> str | None:
    """Why no root can be made here, or None."""
    missing = [name for name in ("apt-cache", "dpkg-query", "tar") if shutil.which(name) is None]
    if missing:
        return f"a clean root is made from Debian packages: {', '.join(missing)} are missing"
    absent = [name for name in PACKAGES if not _is_installed(name)]
    return f"a clean root needs the packages {', '.join(absent)}" if absent else None


def load_python(root: Path) -> str:
    """The version of Python in a root, such as 3.11."""
    return subprocess.run(
        ["chroot", root, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def has_third_shell() -> bool:
    """Whether roots that are made here have a third shell, `ash`."""
    return _is_installed(_THIRD_SHELL)


def find_or_build_root(cache: Path) -> Path:
    """The root below `cache`; nobody may write to it."""
    packages = _find_closure()
    versions = _ask("dpkg-query", "-W", "-f", "${Package}=${Version}\n", *packages)
    root = cache / f"clean-root-{hashlib.sha256((_LAYOUT + versions).encode()).hexdigest()[:16]}"
    if root.is_dir():
        return root
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".clean-root-", dir=cache))
    unfinished.chmod(0o755)
    try:
        _fill(unfinished, packages)
        unfinished.rename(root)
    except OSError:
        if not root.is_dir():  # another process was faster
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return root


def _fill(root: Path, packages: list[str]) -> None:
    for name in _MERGED:
        if Path("/", name).is_symlink():
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")
    for name in (
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "root",
        "usr/local/bin",
        "var/lib",
        "var/log",
        "etc/systemd/system",
    ):
        (root / name).mkdir(parents=True, exist_ok=True)
    _copy_files(root, packages)
    for name in _COPIED:
        if Path("/etc", name).exists():
            subprocess.run(["cp", "-a", f"/etc/{name}", root / "etc/"], check=True)
    if has_third_shell():
        (root / "usr/local/bin/ash").symlink_to("/bin/busybox")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for name, target in _LINKS.items():
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)
    # Packages list no compiled modules: without them every start of Python would compile what it imports.
    subprocess.run(["chroot", root, "sh", "-c", "python3 -m compileall -q /usr/lib/python3.*"], check=False)


def _copy_files(root: Path, packages: list[str]) -> None:
    listed = {line.lstrip("/") for line in _ask("dpkg", "-L", *packages).splitlines() if line.startswith("/")}
    wanted = sorted(name for name in listed if not name.startswith(_LEFT_OUT) and os.path.lexists(f"/{name}"))
    # A folder that is a link at the top is there already, and tar follows it.
    files = [name for name in wanted if not Path("/", name).is_dir() or Path("/", name).is_symlink()]
    files = [name for name in files if name not in _MERGED]
    pack = ["tar", "-C", "/", "--no-recursion", "-cf", "-", "-T", "-"]
    unpack = ["tar", "-C", str(root), "--keep-directory-symlink", "-xf", "-"]
    with subprocess.Popen(pack, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as packer:
        assert packer.stdin is not None
        with subprocess.Popen(unpack, stdin=packer.stdout) as unpacker:
            packer.stdin.write("\n".join(files).encode())
            packer.stdin.close()
            if unpacker.wait(120):
                raise RuntimeError(f"the packages' files could not be unpacked into {root}")


def _find_closure() -> list[str]:
    found = _ask("apt-cache", "depends", *_RECURSE, *PACKAGES, *([_THIRD_SHELL] if has_third_shell() else []))
    names = {line.strip() for line in found.splitlines() if line and not line.startswith((" ", "<"))}
    return sorted(name for name in names if _is_installed(name))


def _is_installed(name: str) -> bool:
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Status}", name], capture_output=True, text=True, check=False)
    return asked.stdout.endswith(" installed")


def _ask(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
