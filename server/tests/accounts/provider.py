"""A complete identity provider on loopback: describes itself, signs people in, checks all that a client must send.

A test may have it lie in one respect at a time.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "starforge", "s3cret of the console/+"


@dataclass
class Grant:
    """What a code stands for, once."""

    redirect_uri: str
    challenge: str
    nonce: str
    claims: dict[str, Any]


@dataclass
class Provider:
    """What it knows, and in which respects it lies."""

    port: int = 0
    client_secret: str = CLIENT_SECRET
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "ann"})
    keys: list[RSAKey | ECKey] = field(default_factory=lambda: [RSAKey.generate_key(2048, {"kid": "one"})])
    described: dict[str, Any] = field(default_factory=dict)
    """Members of its description that are otherwise than they should be."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Claims of ID tokens that are; None leaves one out."""
    userinfo: dict[str, Any] | None = None
    answer: bytes | None = None
    """What every endpoint but the first answers in place of the truth."""
    status: int = 200
    alg: str = "RS256"
    forged_with: OctKey | RSAKey | None = None
    public: bool = False
    codes: dict[str, Grant] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}/realms/team"

    def rotate(self) -> None:
        """Sign with another key from now on; the one before is gone."""
        self.keys = [RSAKey.generate_key(2048, {"kid": f"key-{len(self.keys)}-{secrets.token_hex(4)}"})]

    def describe(self) -> dict[str, Any]:
        base = self.issuer
        return {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/jwks",
            "userinfo_endpoint": f"{base}/userinfo",
            "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
        } | self.described

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent back to, signed in as `person`."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        assert min(len(asked[name]) for name in ("state", "nonce", "code_challenge")) >= 43
        code = secrets.token_urlsafe(16)
        self.codes[code] = Grant(asked["redirect_uri"], asked["code_challenge"], asked["nonce"], dict(self.person))
        return asked["redirect_uri"] + "?" + urlencode({"code": code, "state": asked["state"], "iss": self.issuer})

    def redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        grant = self.codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        checks = {
            "grant": grant is not None and form.get("grant_type") == "authorization_code",
            "redirect": grant is not None and form.get("redirect_uri") == grant.redirect_uri,
            "verifier": grant is not None and challenge.rstrip(b"=").decode() == grant.challenge,
            "client": self._is_client(form, authorization),
        }
        failed = [name for name, passed in checks.items() if not passed]
        if failed or grant is None:
            self.refused += failed
            return 400, {"error": "invalid_client" if failed == ["client"] else "invalid_grant"}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.sign(grant)}

    def sign(self, grant: Grant) -> str:
        now = int(time.time())
        standard = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": grant.nonce}
        told = {name: value for name, value in (standard | grant.claims | self.claims).items() if value is not None}
        header = {"alg": self.alg, "kid": self.keys[0].kid}
        if self.alg == "none":
            parts = [json.dumps(header).encode(), json.dumps(told).encode(), b""]
            return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
        return jwt.encode(header, told, self.forged_with or self.keys[0], algorithms=[self.alg])

    def _is_client(self, form: dict[str, str], authorization: str) -> bool:
        if self.public:
            return form.get("client_id") == CLIENT_ID and not authorization
        if "client_secret" in form:
            return (form.get("client_id"), form["client_secret"]) == (CLIENT_ID, self.client_secret)
        kind, _, encoded = authorization.partition(" ")
        name, _, secret = base64.b64decode(encoded or b"").decode().partition(":")
        return kind == "Basic" and (unquote(name), unquote(secret)) == (CLIENT_ID, self.client_secret)


@contextmanager
def serve_provider(provider: Provider) -> Iterator[Provider]:
    """The provider, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path)
            name = path.path.rpartition("/")[2]
            provider.seen.append(name)
            if name == "openid-configuration":
                self._answer(200, provider.describe())
            elif name == "authorize":
                self.send_response(302)
                self.send_header("Location", provider.authorize(dict(parse_qsl(path.query))))
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif name == "jwks":
                self._answer(200, {"keys": [key.as_dict(private=False) for key in provider.keys]})
            else:
                assert self.headers["Authorization"] == "Bearer opaque"
                self._answer(200, provider.userinfo or {})

        def do_POST(self) -> None:
            provider.seen.append("token")
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(*provider.redeem(dict(parse_qsl(body)), self.headers.get("Authorization", "")))

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            if provider.answer is not None and "issuer" not in body:
                status, content = provider.status, provider.answer
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """A test needs no log of it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
