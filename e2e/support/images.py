"""Images for tests, made from this machine's own files: no registry, the same for every test of a run."""

import contextlib
import http.client
import shutil
import socket
import subprocess
import tarfile
from pathlib import Path
from urllib.parse import urlencode

from e2e.support.engines import PrivateEngine
from tools.framework_image import ENVIRONMENT, Frameworks, find_or_build_framework_tar
from tools.host_image import Contents, find_or_build_tar, for_everybody, make_image

HOST_IMAGE = "starforge-test/host:1"
NO_PYTHON_IMAGE = "starforge-test/no-python:1"
NO_BASH_IMAGE = "starforge-test/no-bash:1"


def host_image(machine: PrivateEngine) -> str:
    """An image with bash and Python."""
    make_image(machine.socket_path, HOST_IMAGE)
    return HOST_IMAGE


def image_without_python(machine: PrivateEngine) -> str:
    """An image with bash alone."""
    make_image(machine.socket_path, NO_PYTHON_IMAGE, Contents(python=False))
    return NO_PYTHON_IMAGE


def image_without_bash(machine: PrivateEngine) -> str:
    """An image in which nothing of ours can start."""
    make_image(machine.socket_path, NO_BASH_IMAGE, Contents(bash=False, python=False))
    return NO_BASH_IMAGE


def image_with(machine: PrivateEngine, name: str, *changes: str) -> str:
    """The host image as `name`, with further lines as in a Dockerfile."""
    return import_tar(machine, find_or_build_tar(), name, *changes)


def image_with_python(machine: PrivateEngine, interpreter: Path, folder: Path) -> str:
    """An image with bash and a Python of this machine as its `python3`; `folder` is for the tar on its way."""
    version = interpreter.name.removeprefix("python")
    library = interpreter.parent.parent / "lib" / f"python{version}"
    tar_path = Path(shutil.copy(find_or_build_tar(Contents(python=False)), folder / f"python-{version}.tar"))
    with tarfile.open(tar_path, "a") as tar:
        tar.add(interpreter.resolve(), f"opt/old/bin/python{version}", filter=for_everybody)
        for path in (*library.glob("*.py"), library / "encodings", library / "collections", library / "lib-dynload"):
            if path.exists():
                tar.add(path, f"opt/old/lib/python{version}/{path.name}", filter=for_everybody)
        present = set(tar.getnames())  # engines refuse a name that comes twice
        for library_path in list_libraries(interpreter):
            if str(library_path).lstrip("/") in present:
                continue
            tar.add(library_path.resolve(), str(library_path).lstrip("/"), filter=for_everybody)
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, f"/opt/old/bin/python{version}"
        tar.addfile(link)
    return import_tar(machine, tar_path, f"starforge-test/python-{version}:1")


def framework_image(machine: PrivateEngine, frameworks: Frameworks) -> str:
    """An image with training frameworks.

    Raises:
        NotFetched: it cannot be made here.

    """
    tar = find_or_build_framework_tar(frameworks)
    return import_tar(machine, tar, f"starforge-test/{frameworks.name}:1", *(f"ENV {line}" for line in ENVIRONMENT))


def import_tar(machine: PrivateEngine, tar_path: Path, name: str, *changes: str) -> str:
    """A root file system as the image `name`."""
    repository, _, tag = name.rpartition(":")
    lines = [("changes", line) for line in ("ENV PATH=/usr/bin:/bin", *changes)]
    query = urlencode([("fromSrc", "-"), ("repo", repository), ("tag", tag), *lines])
    connection = http.client.HTTPConnection("engine")
    with contextlib.closing(connection), socket.socket(socket.AF_UNIX) as sock, tar_path.open("rb") as tar:
        sock.settimeout(120)
        sock.connect(machine.socket_path)
        connection.sock = sock
        with contextlib.suppress(BrokenPipeError):  # a refusal comes before the tar was read
            connection.request("POST", f"/images/create?{query}", tar, {"Content-Type": "application/x-tar"})
        said = connection.getresponse().read()
    if b'"status":"sha256:' not in said:
        raise RuntimeError(f"the engine did not import {name}: {said.decode(errors='replace')}")
    return name


def list_libraries(program: Path) -> list[Path]:
    """The shared libraries that `program` loads."""
    asked = subprocess.run(["ldd", program], capture_output=True, check=False, text=True)
    return [Path(word) for word in asked.stdout.split() if word.startswith("/") and ".so" in word]
