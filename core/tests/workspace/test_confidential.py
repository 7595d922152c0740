"""What may not travel: names that programs keep secrets under, and contents that can be nothing else."""

import json
import random
import string
import time
from pathlib import Path

import pytest

from core.tests.workspace.trees import commit_tree, write_tree
from starforge.workspace.confidential import (
    LOOKED_AT_BYTES,
    Found,
    find_secret,
    find_secret_name,
    hide_secrets,
)
from starforge.workspace.difference import load_difference
from starforge.workspace.manifest import load_manifest
from starforge.workspace.pack import SecretsFound, pack_manifest
from starforge.workspace.provenance import load_origin
from starforge.workspace.remember import pack_or_recall

LETTERS = string.ascii_letters + string.digits


def some(count: int, alphabet: str = LETTERS) -> str:
    """As many characters, the same ones each time; letters of both cases and digits are among them."""
    chance = random.Random(count)
    return "aB3" + "".join(chance.choices(alphabet, k=count - 3))


# Put together here, so that no program takes this file for one that holds secrets.
BODY = "\n".join(some(64) for _ in range(3))
PEM = f"-----BEGIN {{}}PRIVATE KEY-----\n{BODY}\n-----END {{}}PRIVATE KEY-----\n"
HUB = "hf_" + some(34)
GITHUB = "ghp_" + some(36)
AWS_ID = "AKIA" + "QWERTY234567ASDF"
AWS = f"aws_access_key_id = {AWS_ID}\naws_secret_access_key = {some(40, LETTERS + '/+')}\n"


@pytest.mark.parametrize(
    "path",
    [
        ".env", "conf/.env.local", ".netrc", "home/.aws/credentials", ".docker/config.json", "kubeconfig",
        ".kube/config", "keys/deploy_key", "id_ed25519", ".cache/huggingface/token", "kaggle.json",
        "tls/server.p12", "a/b.kubeconfig",
    ],
)  # fmt: skip
def test_names_under_which_programs_keep_secrets_are_known(path: str) -> None:
    assert find_secret_name(path)


@pytest.mark.parametrize(
    "path",
    [
        ".env.example", "conf/.env.sample", "id_rsa.pub", "config.json", "docker/config.json", "aws/credentials.py",
        "tokenizer/token", "ca.pem", "public.key", "environment.yml", "kube/config", "credentials", "train.py", "p12",
        "src/huggingface/token.py", "a/.environment",
    ],
)  # fmt: skip
def test_names_that_only_look_alike_travel(path: str) -> None:
    assert find_secret_name(path) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PEM.format("", ""), "a private key"),
        (PEM.format("OPENSSH ", "OPENSSH "), "a private key"),
        (PEM.format("RSA ", "RSA ").replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: A\n\n", 1), "private"),
        (PEM.format("EC ", "EC ").replace("\n", "\r\n"), "a private key"),
        (json.dumps({"type": "service_account", "private_key": PEM.format("", "")}), "a private key"),
        ("KEY = '''" + PEM.format("", "") + "'''", "a private key"),
        ("PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTY"),
        (AWS, "a secret key of AWS"),
        (f"login(token='{HUB}')", "Hugging Face"),
        (f"export GITHUB_TOKEN={GITHUB}", "GitHub"),
        ("github_pat_" + some(22) + "_" + some(59), "GitHub"),
        ("glpat-" + some(20), "GitLab"),
        ("sk-proj-" + some(80), "OpenAI"),
        ("sk-ant-api03-" + some(93), "Anthropic"),
        ("sfp_" + some(43), "StarForge"),
        ("_authToken=npm_" + some(36), "npm"),
    ],
)  # fmt: skip
def test_contents_that_can_be_nothing_else_are_found_in_their_line(text: str, kind: str) -> None:
    found = find_secret(b"first = 1\n" * 2 + text.encode() if "PuTTY" not in text else text.encode())
    assert found is not None
    assert kind in found.kind
    assert found.line >= (1 if "PuTTY" in text else 3)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN CERTIFICATE-----\n" + BODY,
        "-----BEGIN PUBLIC KEY-----\n" + BODY,
        "if '-----BEGIN PRIVATE KEY-----' in text:\n    raise ValueError",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "token: hf_" + "x" * 34,
        "hf_" + some(20),
        "my_hf_" + some(34),
        "hf_" + some(34) + "_suffix",
        "key: ghp_YOUR_TOKEN_HERE",
        "aws_secret_access_key = " + some(40),
        f"{AWS_ID} is a key's id, sha1 {'0123456789abcdef' * 2}01234567",
        "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "sk-learn-" + "a" * 60,
        "# " + "-" * 100,
        "data:image/png;base64," + some(4000, LETTERS + "/+"),
    ],
)
def test_what_only_looks_alike_is_let_pass(text: str) -> None:
    assert find_secret(text.encode()) is None


def test_large_files_and_binary_ones_are_not_looked_into() -> None:
    assert find_secret(f"{GITHUB}\n".encode() + b"x " * LOOKED_AT_BYTES) is None
    assert find_secret(b"\0" + GITHUB.encode()) is None
    assert find_secret(GITHUB.encode()) == Found("a token of GitHub", 1)


def test_all_files_with_secrets_are_refused_at_once_without_their_values(tmp_path: Path) -> None:
    write_tree(tmp_path, {"train.py": f"x = 1\nlogin('{HUB}')\n", "conf/aws": AWS, "key.pem": PEM.format("", "")})
    manifest = load_manifest(tmp_path)
    with pytest.raises(SecretsFound) as raised:
        pack_manifest(manifest)
    error = raised.value
    assert [item.path for item in error.refused] == ["conf/aws", "key.pem", "train.py"]
    told = str(error) + error.why + error.next_step + "".join(item.reason for item in error.refused)
    assert "train.py: line 2 holds a token of Hugging Face" in error.why
    assert not any(value in told for value in (HUB, BODY[:64], AWS.rsplit(maxsplit=1)[-1]))


def test_nothing_of_a_file_with_a_secret_reaches_a_sink(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "x", "b.py": GITHUB})
    written: list[bytes] = []

    class Sink:
        def write(self, data: bytes, /) -> None:
            written.append(bytes(data))

    with pytest.raises(SecretsFound):
        pack_manifest(load_manifest(tmp_path), Sink())
    assert GITHUB.encode() not in b"".join(written)


def test_a_project_may_take_such_a_file_along_and_that_is_not_remembered_for_longer(tmp_path: Path) -> None:
    root, memory = tmp_path / "w", tmp_path / "memory"
    write_tree(root, {"fixture.py": f"TOKEN = '{GITHUB}'", "train.py": "x", ".sfignore": ".sfignore\n!fixture.py\n"})
    packed = pack_or_recall(load_manifest(root), memory, settled_s=-60)
    assert [file.path for file in packed.files] == ["fixture.py", "train.py"]
    (root / ".sfignore").write_text(".sfignore\n")
    with pytest.raises(SecretsFound):
        pack_or_recall(load_manifest(root), memory, settled_s=-60)


def test_a_difference_does_not_tell_the_secret_that_was_taken_out(tmp_path: Path) -> None:
    commit_tree(tmp_path, {"train.py": f"login('{HUB}')\n", "old.txt": PEM.format("", "")})
    write_tree(tmp_path, {"train.py": "login()\n"})
    (tmp_path / "old.txt").unlink()
    manifest = load_manifest(tmp_path)
    difference = load_difference(manifest, load_origin(manifest))
    assert difference is not None
    assert "-login('(a secret)')\n+login()\n" in difference.text
    assert HUB not in difference.text
    assert not any(line in difference.text for line in BODY.splitlines())


def test_hiding_leaves_every_other_byte() -> None:
    text = f"a {HUB} b\n{GITHUB}\nc\n".encode()
    assert hide_secrets(text) == b"a (a secret) b\n(a secret)\nc\n"
    assert hide_secrets(b"nothing\xff\n") == b"nothing\xff\n"


def test_a_file_full_of_words_that_could_be_a_secret_of_aws_is_looked_through_at_once() -> None:
    chance = random.Random(7)
    words = "".join("".join(chance.choice(LETTERS) for _ in range(39)) + "1\n" for _ in range(1500)).encode()
    began = time.perf_counter()
    assert find_secret(words) is None
    assert hide_secrets(words * 20) == words * 20
    assert time.perf_counter() - began < 4.0
    named = hide_secrets(words * 20 + b"AKIAQ7PM3WN4ZKVJ5T2X\n")
    assert named.count(b"(a secret)") == named.count(b"\n") - 1
    assert time.perf_counter() - began < 8.0
