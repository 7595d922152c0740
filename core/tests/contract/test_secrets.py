"""Names and values that a secret may have, and how a spec names secrets."""

import pytest

from core.tests.contract.test_jobspec import DIGEST, changed
from starforge.contract.environment import DIRECTORY_VARIABLES
from starforge.contract.jobspec import digest_of, parse_jobspec
from starforge.contract.kept_secrets import SetSecret
from starforge.contract.secrets import (
    SECRETS_OF_A_JOB,
    VALUE_BYTES,
    check_name,
    check_value,
    describe_unmasked,
    explain_refused_name,
)
from starforge.errors import InputError, SpecError


@pytest.mark.parametrize("name", ["HF_TOKEN", "A", "WANDB_API_KEY", "A" * 64, "AWS_ACCESS_KEY_ID2", "HTTPS_PROXY"])
def test_a_secret_may_have_the_name_of_a_variable(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "hf_token", "1A", "_A", "A-B", "A" * 65, "A B", "A=B", "A\n", "Ä", "TOKEN\0"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="environment variable"):
        check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("FORGE_JOB", "FORGE_X", "LD_PRELOAD", "PATH", "PYTHONPATH", "PYTHON", "BASH_ENV", "HOME", "ENV", "TMPDIR"),
        *("GCONV_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "MASTER_ADDR", "PET_RDZV_ENDPOINT"),
        *DIRECTORY_VARIABLES,
    ],
)
def test_a_name_that_changes_how_the_job_is_run_is_refused_with_the_reason(name: str) -> None:
    assert explain_refused_name(name)
    with pytest.raises(InputError, match=name):
        check_name(name)
    with pytest.raises(SpecError, match="no secret can be named"):
        parse_jobspec(changed("spec.secrets", [name]))


@pytest.mark.parametrize("value", ["x", "ä" * (VALUE_BYTES // 2), "several\nlines\n", " "])
def test_any_text_may_be_a_value(value: str) -> None:
    check_value("HF_TOKEN", value)


@pytest.mark.parametrize(
    ("value", "fault"),
    [("", "is empty"), ("x" * (VALUE_BYTES + 1), "more than"), ("a\0b", "NUL"), ("a\ud800", "surrogate")],
)
def test_what_no_variable_can_hold_is_refused_without_being_shown(value: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault) as refused:
        check_value("HF_TOKEN", value)
    assert not value or value not in str(refused.value)


def test_of_a_value_that_is_too_short_to_be_masked_its_owner_is_told() -> None:
    assert "will not be masked" in describe_unmasked("PIN", "1234567")
    assert describe_unmasked("PIN", "12345678") == ""


def test_a_message_that_sets_a_secret_never_shows_it() -> None:
    message = SetSecret.model_validate({"value": "hf_very-secret"})
    assert "very-secret" not in f"{message!r} {message} {message.model_dump_json()}"


def test_a_spec_without_secrets_has_the_digest_of_before_there_were_any() -> None:
    assert digest_of(parse_jobspec(changed("spec.secrets", []))) == DIGEST


def test_the_digest_does_not_depend_on_the_order_of_secrets_and_depends_on_their_names() -> None:
    one, other = (parse_jobspec(changed("spec.secrets", names)) for names in (["B", "A"], ["A", "B"]))
    assert one.spec.secrets == ("A", "B")
    assert digest_of(one) == digest_of(other)
    assert digest_of(one) not in {DIGEST, digest_of(parse_jobspec(changed("spec.secrets", ["A"])))}


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["A", "B", "A"], "names A twice"),
        (["hf_token"], "environment variable"),
        ([f"A{number}" for number in range(SECRETS_OF_A_JOB + 1)], "secrets"),
        (["A=hunter2"], "environment variable"),
    ],
)
def test_secrets_that_no_job_can_be_given_are_refused(names: list[str], fault: str) -> None:
    with pytest.raises(SpecError, match=fault) as refused:
        parse_jobspec(changed("spec.secrets", names))
    assert "hunter2" not in str(refused.value)
