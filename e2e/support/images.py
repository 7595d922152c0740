"""Images for tests, made from this machine's own files: no registry, the same for every test of a run."""

from e2e.support.engines import PrivateEngine
from tools.host_image import Contents, make_image

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
