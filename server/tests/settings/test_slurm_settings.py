"""The settings of a Slurm cluster, and whose jobs run as whom."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from starforge_console.errors import SettingsError
from starforge_console.settings.slurm import SlurmSettings, load_submitters

WHOLE = {"slurm_url": "http://head:6820/", "slurm_user": "forge", "slurm_key_file": "/etc/key", "slurm_runtime": "none"}


def build(**changes: Any) -> SlurmSettings:
    return SlurmSettings(**{name: value for name, value in (WHOLE | changes).items() if value is not None})


def test_what_is_whole_is_taken_and_without_an_address_there_is_no_cluster() -> None:
    settings = build(slurm_gres="h200=gpu:h200 l40s=gpu:l40s")
    assert build(slurm_gres="h200=gpu").gres == {"h200": "gpu"}
    assert (settings.slurm_url, settings.is_set, settings.is_bare) == ("http://head:6820", True, True)
    assert settings.gres == {"h200": "gpu:h200", "l40s": "gpu:l40s"}
    assert not SlurmSettings().is_set


def test_a_series_is_read_in_small_letters_as_jobs_ask_for_it_and_a_type_to_the_letter() -> None:
    assert build(slurm_gres="H200=gpu:H200").gres == {"h200": "gpu:H200"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"slurm_url": "head:6820"}, "must begin with http://"),
        ({"slurm_url": "http://u:s3cret@head:6820"}, "must hold no user and no password"),
        ({"slurm_url": "http://head:99999"}, "must name a host and a port"),
        ({"slurm_url": "http://[::1"}, "must name a host and a port"),
        ({"slurm_url": "https://"}, "must name a host and a port"),
        ({"slurm_user": "ü"}, "pattern"),
        ({"slurm_key_file": None, "slurm_token": "tökén"}, "must be a token alone"),
        ({"slurm_user": None}, "FORGE_SLURM_USER"),
        ({"slurm_key_file": None}, "exactly one of"),
        ({"slurm_token": "t"}, "exactly one of"),
        ({"slurm_runtime": None}, "FORGE_SLURM_RUNTIME"),
        ({"slurm_gres": "h200"}, "pairs such as"),
        ({"slurm_gres": "h200=h200"}, "pairs such as"),
        ({"slurm_gres": "h200=gpu:h200:8"}, "pairs such as"),
        ({"slurm_gres": "h200=gpu l40s=gpu"}, "'gpu' stands there twice"),
        ({"slurm_gres": "h200=gpu:a h200=gpu:b"}, "'h200' stands there twice"),
        ({"slurm_gres": "h200=gpu:a H200=gpu:b"}, "'h200' stands there twice"),
        ({"slurm_job_user": "submitter"}, "FORGE_SLURM_USER_MAP"),
    ],
)
def test_what_is_missing_or_too_much_is_said_by_the_name_of_its_variable(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        build(**changes)


def test_on_a_socket_the_daemon_knows_us_without_a_token() -> None:
    assert build(slurm_url="unix:///run/slurmrestd.sock", slurm_key_file=None).is_set


def test_each_account_has_the_user_of_its_line(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# who is who\nann  annette 2001 2001\n\nbob bob 2002 100 # of the lab\n")
    settings = build(slurm_job_user="submitter", slurm_user_map=str(users))
    assert load_submitters(settings) == {"ann": ("annette", 2001, 2001), "bob": ("bob", 2002, 100)}
    assert load_submitters(build(slurm_user_map=str(users))) == {}


@pytest.mark.parametrize(
    "line",
    [
        "ann annette 2001",
        "ann annette x 1",
        "ann a 1 1 1",
        "ann a 1 1\nann b 2 2",
        "ann root 0 0",
        "ann änne 1 1",
        "ann a 4294967295 1",
        "ann a 99999999999 1",
    ],
)
def test_a_line_that_is_none_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    users = tmp_path / "users"
    users.write_text(f"eve eve 3 3\n{line}\n")
    with pytest.raises(SettingsError, match=r"line [23]: '"):
        load_submitters(build(slurm_job_user="submitter", slurm_user_map=str(users)))


def test_a_map_that_names_nobody_is_refused_and_no_job_runs_as_the_consoles_user(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# nobody yet\n\n")
    with pytest.raises(SettingsError, match="names no account"):
        load_submitters(build(slurm_job_user="submitter", slurm_user_map=str(users)))


def test_a_map_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_submitters(build(slurm_job_user="submitter", slurm_user_map=str(tmp_path / "none")))
