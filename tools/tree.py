"""The files of the repository as git sees them: tracked, or new and not ignored."""

import subprocess
from pathlib import Path


def load_files(root: Path, *patterns: str) -> list[Path]:
    """Paths relative to `root` that exist and match one of git's `patterns` (all without any), in order.

    Raises:
        subprocess.CalledProcessError: `root` is no git work tree.
    """
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(argv, cwd=root, check=True, capture_output=True).stdout.decode()
    paths = (Path(name) for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if (root / path).is_file()]
