import json
import stat
from pathlib import Path

import pytest

from starforge.client.login import (
    Session,
    find_registry,
    forget_session,
    load_session,
    save_registry,
    save_session,
)
from starforge.errors import ProjectError, SignInRequired

SERVER = "https://forge.example.org"


@pytest.fixture(autouse=True)
def config_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SF_SERVER", "SF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SF_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


def test_a_kept_session_is_for_this_user_alone(config_dir: Path) -> None:
    file = save_session(Session(SERVER, "secret-token"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(config_dir.stat().st_mode) == 0o700
    assert load_session() == Session(SERVER, "secret-token")


def test_a_session_does_not_show_its_token() -> None:
    assert "secret-token" not in repr(Session(SERVER, "secret-token"))


def test_a_credential_that_others_can_read_is_refused() -> None:
    file = save_session(Session(SERVER, "secret-token"))
    file.chmod(0o640)
    with pytest.raises(ProjectError, match="chmod 600") as caught:
        load_session()
    assert "secret-token" not in str(caught.value)


def test_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    save_session(Session(SERVER, "kept"))
    monkeypatch.setenv("SF_TOKEN", "named")
    assert load_session() == Session(SERVER, "named")
    monkeypatch.setenv("SF_SERVER", "https://other.example.org/")
    assert load_session() == Session("https://other.example.org", "named")


def test_a_kept_token_is_never_sent_to_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    save_session(Session(SERVER, "kept"))
    monkeypatch.setenv("SF_SERVER", "https://other.example.org")
    with pytest.raises(SignInRequired, match=r"other\.example\.org"):
        load_session()


def test_without_a_session_the_way_in_is_named() -> None:
    with pytest.raises(SignInRequired, match="sf login --server URL"):
        load_session()


def test_signing_out_forgets_the_token_and_what_was_learned(config_dir: Path) -> None:
    save_session(Session(SERVER, "kept"))
    save_registry([{"name": "h200"}])
    assert forget_session() == SERVER
    assert list(config_dir.iterdir()) == []
    assert forget_session() is None


def test_the_registry_knows_its_age(config_dir: Path) -> None:
    assert find_registry() is None
    save_registry([{"name": "h200"}])
    registry = find_registry()
    assert registry is not None
    assert 0 <= registry.age_s < 60
    file = config_dir / "registry.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "fetched_at": content["fetched_at"] - 86_400}))
    older = find_registry()
    assert older is not None
    assert older.age_s >= 86_400


def test_a_damaged_file_is_named(config_dir: Path) -> None:
    save_session(Session(SERVER, "kept"))
    (config_dir / "credential.json").write_text("{")
    with pytest.raises(ProjectError, match=r"credential\.json"):
        load_session()


def test_without_the_variable_the_files_lie_where_the_desktop_standard_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SF_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert save_session(Session(SERVER, "kept")) == tmp_path / "xdg/starforge/credential.json"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert save_session(Session(SERVER, "kept")) == tmp_path / "home/.config/starforge/credential.json"
