import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from starforge_console.errors import SettingsError
from starforge_console.fleets.install import check_local, load_install, locate, prepare_install, prepare_state
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import list_fleets
from starforge_console.settings.console import (
    ConsoleSettings,
    FleetKind,
    HttpSettings,
    LocalSettings,
    PathSettings,
    PolicySettings,
)

MOUNTS = b"""\
overlay / overlay rw 0 0
tmpfs /run tmpfs rw 0 0
nas:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local\\040disk ext4 rw 0 0
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Database]:
    settings = settings_for(tmp_path)
    prepare_state(settings)
    opened = Database(locate(settings, "ledger"), "ledger")
    yield opened
    opened.close()


def settings_for(tmp_path: Path, storage: str = "storage", state: str = "state") -> ConsoleSettings:
    return ConsoleSettings(
        paths=PathSettings(console_state_dir=tmp_path / state, storage_root=tmp_path / storage),
        http=HttpSettings(),
        local=LocalSettings(),
        policy=PolicySettings(),
    )


def test_the_state_is_for_its_owner_alone(state: Path, ledger: Database) -> None:
    assert ledger.read_now(list_fleets) == []
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    for name in ("ledger.db", "series.db"):
        assert stat.S_IMODE((state / name).stat().st_mode) == 0o600


def test_a_state_directory_that_others_may_enter_is_refused_and_left_as_it_is(state: Path) -> None:
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    with pytest.raises(SettingsError, match="open to others"):
        prepare_state(settings_for(state.parent))
    assert stat.S_IMODE(state.stat().st_mode) == 0o755
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("damage", ["no text", "a folder"])
def test_a_mark_that_cannot_be_read_is_told_and_never_replaced(tmp_path: Path, ledger: Database, damage: str) -> None:
    mark = tmp_path / "storage" / ".starforge-storage"
    mark.parent.mkdir()
    if damage == "no text":
        mark.write_bytes(b"\xff\xfe\x00")
    else:
        mark.mkdir()
    with pytest.raises(SettingsError, match="cannot be read") as refused:
        prepare_install(ledger, settings_for(tmp_path), 1.0)
    assert "from a copy" in refused.value.next_step
    assert mark.is_dir() or mark.read_bytes() == b"\xff\xfe\x00"


def test_a_second_time_finds_what_the_first_made(tmp_path: Path, ledger: Database) -> None:
    settings = settings_for(tmp_path)
    first = prepare_install(ledger, settings, 1.0)
    assert prepare_install(ledger, settings, 2.0) == first
    assert load_install(ledger, settings.storage_root) == first
    assert [(fleet.name, fleet.kind) for fleet in ledger.read_now(list_fleets)] == [("local", "local")]


def test_two_installs_on_one_storage_root_have_ids_of_their_own(tmp_path: Path, ledger: Database) -> None:
    first = prepare_install(ledger, settings_for(tmp_path), 1.0)
    other_settings = settings_for(tmp_path, state="other")
    prepare_state(other_settings)
    other = Database(locate(other_settings, "ledger"), "ledger")
    try:
        second = prepare_install(other, settings_for(tmp_path), 1.0)
    finally:
        other.close()
    assert first.id != second.id
    assert first.storage_id == second.storage_id


def test_a_storage_root_that_lost_its_mark_is_no_storage(tmp_path: Path, ledger: Database) -> None:
    settings = settings_for(tmp_path)
    prepare_install(ledger, settings, 1.0)
    (settings.storage_root / ".starforge-storage").unlink()
    with pytest.raises(SettingsError, match="not this console's storage"):
        prepare_install(ledger, settings, 2.0)
    with pytest.raises(SettingsError, match="not this console's storage"):
        load_install(ledger, settings.storage_root)


def test_the_storage_of_another_console_is_refused(tmp_path: Path, ledger: Database) -> None:
    prepare_install(ledger, settings_for(tmp_path), 1.0)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / ".starforge-storage").write_text("0123\n")
    with pytest.raises(SettingsError, match="not this console's storage"):
        load_install(ledger, foreign)


def test_a_console_that_was_not_set_up_says_so(tmp_path: Path, ledger: Database) -> None:
    with pytest.raises(SettingsError, match="has not been set up"):
        load_install(ledger, tmp_path)


@pytest.mark.parametrize("path", ["/home/ann/state", "/home"])
def test_a_state_directory_on_a_network_file_system_is_refused(path: str) -> None:
    with pytest.raises(SettingsError, match="nfs4"):
        check_local(Path(path), MOUNTS)


@pytest.mark.parametrize("path", ["/var/lib/starforge", "/home/local disk/state", "/homes"])
def test_a_local_disk_is_taken(path: str) -> None:
    check_local(Path(path), MOUNTS)


def test_the_first_start_makes_a_fleet_of_the_kind_that_is_set_under_either_of_its_names(
    tmp_path: Path, ledger: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("node", "agent"):
        monkeypatch.setenv("FORGE_DEFAULT_FLEET_KIND", word)
        assert LocalSettings().default_fleet_kind is FleetKind.NODE
    prepare_install(ledger, replace(settings_for(tmp_path), local=LocalSettings()), 1.0)
    assert [(fleet.name, fleet.kind) for fleet in ledger.read_now(list_fleets)] == [("node", "node")]
    monkeypatch.setenv("FORGE_DEFAULT_FLEET_KIND", "agents")
    with pytest.raises(ValidationError, match="default_fleet_kind"):
        LocalSettings()
