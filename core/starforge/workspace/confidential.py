"""Which files hold what nobody else may know: by their names, and by contents that cannot be anything else.

Names are those under which programs keep passwords and keys by themselves. Contents are formats whose owners document
them, so that a text which only looks alike is rare. `.sfignore` has the last word: `!path` takes a file along.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

LOOKED_AT_BYTES: Final = 64 << 10
"""Only files up to this size are looked into: keys and settings are small, and a look has its price."""

_LEAST_DIFFERENT: Final = 8
"""How many different characters a token has at least; a placeholder such as hf_xxxx has fewer."""

_NAMES: Final = {
    ".env": "an environment file",
    ".netrc": "passwords of curl, git and wandb",
    "_netrc": "passwords of curl, git and wandb",
    ".git-credentials": "git's passwords",
    ".pypirc": "PyPI's passwords",
    ".pgpass": "PostgreSQL's passwords",
    ".my.cnf": "MySQL's passwords",
    ".vault-token": "a token of HashiCorp Vault",
    ".dockercfg": "Docker's passwords",
    ".docker/config.json": "Docker's passwords",
    ".aws/credentials": "keys of AWS",
    ".s3cfg": "keys of s3cmd",
    ".boto": "keys of gsutil",
    ".ossutilconfig": "keys of ossutil",
    "rclone.conf": "keys of rclone",
    "application_default_credentials.json": "keys of Google Cloud",
    "gcloud/credentials.db": "keys of Google Cloud",
    ".azure/accessTokens.json": "tokens of Azure",
    ".azure/msal_token_cache.json": "tokens of Azure",
    ".azure/msal_token_cache.bin": "tokens of Azure",
    ".kube/config": "keys of a Kubernetes cluster",
    "kubeconfig": "keys of a Kubernetes cluster",
    "kubeconfig.yaml": "keys of a Kubernetes cluster",
    "kubeconfig.yml": "keys of a Kubernetes cluster",
    "huggingface/token": "a token of Hugging Face",
    "huggingface/stored_tokens": "tokens of Hugging Face",
    "kaggle.json": "a key of Kaggle",
    "id_rsa": "a private key of SSH",
    "id_dsa": "a private key of SSH",
    "id_ecdsa": "a private key of SSH",
    "id_ecdsa_sk": "a private key of SSH",
    "id_ed25519": "a private key of SSH",
    "id_ed25519_sk": "a private key of SSH",
    "deploy_key": "a private key of SSH",
}
"""The end of a path, whole names. *.pem and *.key are missing: public certificates are called so too, and what is
inside decides."""

_SUFFIXES: Final = {
    "ppk": "a private key of PuTTY",
    "p12": "a key store",
    "pfx": "a key store",
    "jks": "a key store",
    "kdbx": "a store of passwords",
    "kubeconfig": "keys of a Kubernetes cluster",
}
_VARIANT: Final = ".env."
_SAMPLES: Final = (".example", ".sample", ".template", ".dist")

_TOKENS: Final[Sequence[tuple[str, str]]] = (
    (r"hf_[A-Za-z0-9]{34}", "a token of Hugging Face"),
    (r"gh[pousr]_[A-Za-z0-9]{36,251}", "a token of GitHub"),
    (r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}", "a token of GitHub"),
    (r"glpat-[A-Za-z0-9_-]{20,64}", "a token of GitLab"),
    (r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200}", "a key of OpenAI"),
    (r"sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}", "a key of OpenAI"),
    (r"sk-ant-[a-z0-9]{2,12}-[A-Za-z0-9_-]{80,120}", "a key of Anthropic"),
    (r"xox[abprs]-[0-9]{8,14}-[A-Za-z0-9-]{20,250}", "a token of Slack"),
    (r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,250}", "a token of PyPI"),
    (r"npm_[A-Za-z0-9]{36}", "a token of npm"),
    (r"dckr_pat_[A-Za-z0-9_-]{27}", "a token of Docker Hub"),
    (r"sfp_[A-Za-z0-9_-]{43}", "a token of StarForge"),
)
_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/"
_FLAT: Final = bytes(ord("w") if char in _WORD else ord(" ") for char in range(256))
_LONG: Final = b"w" * 26
"""Every secret holds a word at least this long. Looking for long words first costs a tenth of what the patterns do."""

_EDGE: Final = r"(?<![A-Za-z0-9_-])(?:{})(?![A-Za-z0-9_-])"
_TOKEN: Final = re.compile(_EDGE.format("|".join(f"({pattern})" for pattern, _ in _TOKENS)).encode())
_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:\\r)?(?:\r?\n|\\n)"
    rb"(?:(?:[A-Z][A-Za-z-]*: [^\r\n\\]{0,120})?(?:\\r)?(?:\r?\n|\\n)[ \t+-]*){0,6}[ \t+-]*[A-Za-z0-9+/=]{32}"
)
_PUTTY: Final = re.compile(rb"PuTTY-User-Key-File-[0-9]: ")
_AWS_ID: Final = re.compile(rb"(?<![A-Z0-9])A(?:KIA|SIA)[A-Z2-7]{16}(?![A-Za-z0-9])")
_AWS_SECRET: Final = re.compile(rb"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_DIGIT: Final = re.compile(rb"[0-9]")
_AWS_SAMPLE: Final = b"EXAMPLE"
_KEY_BODY: Final = re.compile(
    rb"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,8}-----)(.*?)(?=-----END|\Z)", re.DOTALL
)
_HIDDEN: Final = b"(a secret)"


class Found(NamedTuple):
    """What a file holds, in words, and in which line; the value itself is nowhere."""

    kind: str
    line: int


_ENDS: Final = frozenset(tail.rpartition("/")[2] for tail in _NAMES)


def find_secret_name(path: str) -> str | None:
    """What a file of that path is likely to hold, in words; None for any other file."""
    folders, _, name = path.rpartition("/")
    if name in _ENDS:
        return _NAMES.get(name) or _NAMES.get(f"{folders.rpartition('/')[2]}/{name}")
    if name.startswith(_VARIANT) and not name.endswith(_SAMPLES):
        return _NAMES[".env"]
    return _SUFFIXES.get(name.rpartition(".")[2]) if "." in name else None


def find_secret(content: bytes) -> Found | None:
    """The first secret in a file's content whose format is unmistakable; None where there is none, or it is large."""
    if len(content) > LOOKED_AT_BYTES or b"\0" in content:
        return None
    found = min(_list_secrets(content), default=None)
    return None if found is None else Found(found[1], content.count(b"\n", 0, found[0]) + 1)


def hide_secrets(text: bytes) -> bytes:
    """`text` with every such secret in it replaced; lines stay lines, each with its first character."""
    kept, done = [], 0
    for start, _, end in sorted(_list_tokens(text, _list_long_words(text))):
        if start >= done:
            kept += [text[done:start], _HIDDEN]
        done = max(done, end)
    shown = b"".join(kept) + text[done:]
    return _KEY_BODY.sub(lambda key: key[1] + re.sub(rb"\n(.)[^\n]*", rb"\n\1" + _HIDDEN, key[2]), shown)


def _list_secrets(content: bytes) -> Iterator[tuple[int, str]]:
    if content.startswith(b"PuTTY") and _PUTTY.match(content):
        yield 0, "a private key of PuTTY"
    words = list(_list_long_words(content))
    if words and (key := _KEY.search(content)):
        yield key.start(), "a private key"
    yield from ((found, kind) for found, kind, _ in _list_tokens(content, words))


def _list_long_words(content: bytes) -> Iterator[tuple[int, int]]:
    flat = content.translate(_FLAT) + b" "
    start = flat.find(_LONG)
    while start >= 0:
        end = flat.index(b" ", start)
        yield start, end
        start = flat.find(_LONG, end)


def _list_tokens(content: bytes, words: Iterable[tuple[int, int]]) -> Iterator[tuple[int, str, int]]:
    """Where a token in one of the long words begins, what it is, and where it ends."""
    names_aws = None  # looked for once: a file may be full of words that would be its secret
    for start, end in words:
        for found in _TOKEN.finditer(content, start, end + 1):
            if found.lastindex is not None and _is_no_placeholder(found[0]):
                yield found.start(), _TOKENS[found.lastindex - 1][1], found.end()
        for found in _AWS_SECRET.finditer(content, start, end + 1):
            if not _is_no_placeholder(found[0]) or not _DIGIT.search(found[0]):
                continue
            names_aws = _names_aws_key(content) if names_aws is None else names_aws
            if names_aws:
                yield found.start(), "a secret key of AWS", found.end()


def _names_aws_key(content: bytes) -> bool:
    return any(not found[0].endswith(_AWS_SAMPLE) for found in _AWS_ID.finditer(content))


def _is_no_placeholder(text: bytes) -> bool:
    varied = len(set(text)) >= _LEAST_DIFFERENT and text.lower() != text and text.upper() != text
    return varied and _AWS_SAMPLE not in text
