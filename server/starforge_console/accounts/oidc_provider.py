"""An identity provider as it is spoken to: its own description, its keys, and what it says of whoever signed in there.

Nothing that it answers is believed before it was checked: addresses, sizes, signatures, and for whom it was meant.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

import httpx2

from starforge.contract.addresses import is_loopback
from starforge.errors import Unavailable
from starforge.said.sentence import say
from starforge_console.clock import Clock
from starforge_console.errors import ProviderRefused
from starforge_console.settings.oidc import OidcSettings

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

KEPT_S: Final = 3600.0
"""How long its description and keys are taken at their word."""
ASKED_APART_S: Final = 30.0
"""Keys are fetched anew for one that is not known at most this often."""
LARGEST_BYTES: Final = 1 << 20
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures of keys that only the provider has: no shared secret, and never none."""
LEEWAY_S: Final = 60
_POST: Final = "client_secret_post"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where the provider does what."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    sends_issuer: bool
    takes_secret_in_body: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What the browser brought back, and what it was sent away with."""

    code: str
    redirect_uri: str
    verifier: str
    nonce: str


class Provider:
    """One provider; belongs to one event loop."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._endpoints: tuple[float, Endpoints] | None = None
        self._keys: tuple[float, Mapping[str, Any]] | None = None
        self._turn = asyncio.Lock()

    async def load_endpoints(self) -> Endpoints:
        """Where it does what, as it describes itself. Raises Unavailable, ProviderRefused."""
        async with self._turn:
            now = self._clock.monotonic()
            if self._endpoints is not None and now - self._endpoints[0] < KEPT_S:
                return self._endpoints[1]
            issuer = self._settings.oidc_issuer
            described = await self._get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if described.get("issuer") != issuer:
                named = repr(described.get("issuer"))[:200]
                raise ProviderRefused(say("fault.provider_other"), why=say("fault.provider_names", name=named))
            found = _read_endpoints(described)
            self._endpoints = (now, found)
            return found

    async def fetch_claims(self, exchange: Exchange) -> Mapping[str, Any]:
        """What the provider says of whoever signed in, for the code that the browser brought back.

        Raises:
            ProviderRefused: the code is not taken, or what comes is not signed by the provider, for this console, now,
                and for this very sign-in.
            Unavailable: the provider does not answer.

        """
        endpoints = await self.load_endpoints()
        answer = await self._redeem(endpoints, exchange)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderRefused(say("fault.provider_no_token"))
        claims = await self._verify(endpoints, token, exchange.nonce)
        settings = self._settings
        wanted = {settings.oidc_user_claim, *([settings.oidc_groups_claim] if settings.oidc_roles else [])}
        if not wanted <= claims.keys() and endpoints.userinfo and isinstance(answer.get("access_token"), str):
            told = await self._get(endpoints.userinfo, {"Authorization": f"Bearer {answer['access_token']}"})
            if told.get("sub") != claims["sub"]:
                raise ProviderRefused(say("fault.provider_somebody"), why=say("fault.provider_subjects"))
            return {**told, **claims}
        return claims

    async def _redeem(self, endpoints: Endpoints, exchange: Exchange) -> Mapping[str, Any]:
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": exchange.code,
            "redirect_uri": exchange.redirect_uri,
            "client_id": settings.oidc_client_id,
            "code_verifier": exchange.verifier,
        }
        auth = None
        if settings.oidc_client_secret is not None:
            secret = settings.oidc_client_secret.get_secret_value()
            if endpoints.takes_secret_in_body:
                form["client_secret"] = secret
            else:
                auth = httpx2.BasicAuth(quote(settings.oidc_client_id, safe=""), quote(secret, safe=""))
        request = httpx2.Request("POST", endpoints.token, data=form, headers={"Accept": "application/json"})
        return await self._ask(request, auth)

    async def _verify(self, endpoints: Endpoints, token: str, nonce: str) -> Mapping[str, Any]:
        from joserfc import jwt  # noqa: PLC0415 - few consoles have a provider
        from joserfc.errors import InvalidKeyIdError, JoseError  # noqa: PLC0415 - the same

        settings = self._settings
        try:
            try:
                decoded = jwt.decode(token, await self._load_keys(endpoints), algorithms=ALGORITHMS)
            except InvalidKeyIdError:  # it has changed its keys
                decoded = jwt.decode(token, await self._load_keys(endpoints, anew=True), algorithms=ALGORITHMS)
            claims = decoded.claims
            jwt.JWTClaimsRegistry(
                now=int(self._clock.now()),
                leeway=LEEWAY_S,
                iss={"essential": True, "value": settings.oidc_issuer},
                aud={"essential": True, "value": settings.oidc_client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise ProviderRefused(say("fault.token_not_taken"), why=f"{type(error).__name__}: {error}"[:300]) from error
        _check_party(claims, settings.oidc_client_id)
        return claims

    async def _load_keys(self, endpoints: Endpoints, *, anew: bool = False) -> "KeySet":
        from joserfc.errors import JoseError  # noqa: PLC0415 - few consoles have a provider
        from joserfc.jwk import KeySet  # noqa: PLC0415 - the same

        async with self._turn:
            now = self._clock.monotonic()
            kept_s = ASKED_APART_S if anew else KEPT_S
            if self._keys is None or now - self._keys[0] >= kept_s:
                self._keys = (now, await self._get(endpoints.keys))
            try:
                return KeySet.import_key_set({"keys": list(self._keys[1]["keys"])})
            except (JoseError, ValueError, TypeError, KeyError) as error:
                self._keys = None
                raise ProviderRefused(say("fault.provider_keys"), why=str(error)[:300]) from error

    async def _get(self, url: str, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        request = httpx2.Request("GET", url, headers={"Accept": "application/json", **(headers or {})})
        return await self._ask(request)

    async def _ask(self, request: httpx2.Request, auth: httpx2.Auth | None = None) -> Mapping[str, Any]:
        """The JSON object that it answers. Raises Unavailable, ProviderRefused."""
        host, timeout_s = request.url.host, self._settings.oidc_timeout_s
        local = is_loopback(host)
        try:
            async with (
                asyncio.timeout(timeout_s),
                httpx2.AsyncClient(timeout=timeout_s, trust_env=not local, follow_redirects=False) as client,
            ):
                response = await client.send(request, auth=auth, stream=True)
                body = await _read(response)
        except (TimeoutError, httpx2.HTTPError, OSError) as error:
            why = str(error)[:300] or say("host.no_answer", s=f"{timeout_s:g}")
            raise Unavailable(say("fault.provider_silent", host=host), why=why, next_step=say("fault.later")) from error
        if response.status_code >= httpx2.codes.INTERNAL_SERVER_ERROR:
            raise Unavailable(
                say("fault.provider_fault", host=host),
                why=say("fault.provider_answered", status=response.status_code),
                next_step=say("fault.later"),
            )
        return _parse(response.status_code, body)


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > LARGEST_BYTES:
                raise ProviderRefused(say("fault.provider_large", most=LARGEST_BYTES))
    finally:
        await response.aclose()
    return bytes(body)


def _parse(status: int, body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if status >= httpx2.codes.MULTIPLE_CHOICES:
        error = str(answer.get("error") or "") if isinstance(answer, dict) else ""
        told = say("fault.provider_answered", status=status)
        why = say("fault.provider_answered_why", status=status, error=f"{error:.200}") if error else told
        raise ProviderRefused(say("fault.provider_refused"), why=why)
    if not isinstance(answer, dict):
        raise ProviderRefused(say("fault.provider_no_object"))
    return answer


def _read_endpoints(described: Mapping[str, Any]) -> Endpoints:
    methods = described.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    return Endpoints(
        authorization=_check_address(described, "authorization_endpoint"),
        token=_check_address(described, "token_endpoint"),
        keys=_check_address(described, "jwks_uri"),
        userinfo=_check_address(described, "userinfo_endpoint") if described.get("userinfo_endpoint") else None,
        sends_issuer=described.get("authorization_response_iss_parameter_supported") is True,
        takes_secret_in_body=_POST in methods and "client_secret_basic" not in methods,
    )


def _check_address(described: Mapping[str, Any], name: str) -> str:
    """The address that it names. Raises ProviderRefused for one that others could read or change."""
    url = described.get(name)
    parts = urlsplit(url) if isinstance(url, str) else None
    is_local = parts is not None and parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not isinstance(url, str) or parts is None or not (parts.scheme == "https" or is_local):
        raise ProviderRefused(say("fault.provider_unsafe", name=name), why=repr(url)[:200])
    return url


def _check_party(claims: Mapping[str, Any], client_id: str) -> None:
    """Raises ProviderRefused for a token that was made for somebody else too, and not for this console."""
    audience, party, subject = claims["aud"], claims.get("azp"), claims["sub"]
    if (party is not None and party != client_id) or (
        isinstance(audience, list) and len(audience) > 1 and party is None
    ):
        raise ProviderRefused(say("fault.token_not_taken"), why=say("fault.token_party"))
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:  # noqa: PLR2004 - the longest that OpenID Connect allows
        raise ProviderRefused(say("fault.token_not_taken"), why=say("fault.token_subject"))
