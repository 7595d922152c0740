from pathlib import Path

import pytest

from starforge.mounts import find_file_system, list_mounted

MOUNTS = rb"""overlay / overlay rw 0 0
tmpfs /run tmpfs rw 0 0
/dev/sdb1 /srv/two\040words\134and\011tab ext4 rw 0 0
/dev/sdc1 /srv/a/b xfs rw 0 0
nas:/a /srv/a nfs4 rw 0 0
ramfs /run ramfs rw 0 0
cut short
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc", "overlay"),
        ("/run/starforge", "ramfs"),
        ("/srv/two words\\and\ttab/x", "ext4"),
        ("/srv/a/b/c", "xfs"),
        ("/srv/a/bc", "nfs4"),
        ("/running", "overlay"),
    ],
)
def test_the_longest_mount_counts_and_of_two_on_one_path_the_last(path: str, kind: str) -> None:
    assert find_file_system(Path(path), MOUNTS) == kind


def test_a_list_that_names_nothing_above_a_path_gives_no_type() -> None:
    assert find_file_system(Path("/etc"), b"tmpfs /run tmpfs rw 0 0\n") is None


def test_the_file_system_of_this_process_is_known(tmp_path: Path) -> None:
    assert find_file_system(tmp_path)
    assert find_file_system(Path("/proc/self")) == "proc"


def test_what_a_later_mount_covers_is_not_seen() -> None:
    listed = list_mounted(MOUNTS + b"tmpfs /srv/new\\012line tmpfs rw 0 0\ntmpfs /srv/\xff tmpfs rw 0 0\n")
    assert listed == ("/", "/srv/two words\\and\ttab", "/srv/a", "/run", "/srv/new\nline")
