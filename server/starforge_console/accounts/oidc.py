"""Signing in through an identity provider: authorization code with PKCE, state and nonce (OpenID Connect Core)."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from starforge.contract.launch import Secret
from starforge.said.sentence import say
from starforge_console.accounts.acts import check_user_name
from starforge_console.accounts.oidc_provider import Exchange, Provider
from starforge_console.accounts.sign_in import Accounts
from starforge_console.accounts.throttle import Throttle
from starforge_console.clock import Clock
from starforge_console.domain.roles import Role, find_widest
from starforge_console.errors import Forbidden, ProviderRefused
from starforge_console.ledger.accounts import User
from starforge_console.ledger.audit import Actor, Via
from starforge_console.ledger.database import Database
from starforge_console.ledger.fleets import add_fact
from starforge_console.ledger.identities import Given, Identity, Welcome, sign_in_identity
from starforge_console.settings.oidc import OidcSettings

CALLBACK: Final = "/oidc/callback"
JOURNEY_S: Final = 600
"""How long somebody may take at the provider."""
_LONGEST_COOKIE: Final = 3000
_KEY_FACT: Final = "oidc-luggage-key"


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the browser is sent, and what it is to bring back beside that, out of reach of scripts."""

    address: str
    luggage: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What the browser brought back: the parameters of its address, and the luggage that it was sent away with."""

    code: str
    state: str
    issuer: str
    error: str
    luggage: str


class OidcSignIn:
    """The sign-ins of one console through its provider; belongs to one event loop."""

    def __init__(
        self, ledger: Database, clock: Clock, settings: OidcSettings, public_url: str, accounts: Accounts
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._accounts = accounts
        self._settings = settings
        self._redirect_uri = public_url.rstrip("/") + CALLBACK
        self._provider = Provider(settings, clock)
        self._failures = Throttle()
        self._key: bytes | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a provider."""
        return self._settings.is_set

    @property
    def name(self) -> str:
        """What the provider is called on pages."""
        return self._settings.oidc_name

    @property
    def longest_s(self) -> float:
        """How long a session lives at most that was opened so."""
        return self._settings.oidc_session_h * 3600

    async def depart(self, after: str) -> Departure:
        """Send somebody to the provider; `after` is where they wanted to go. Raises Unavailable, ProviderRefused."""
        endpoints = await self._provider.load_endpoints()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._settings.oidc_scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        luggage = {"state": state, "nonce": nonce, "verifier": verifier, "after": after[:1000], "at": self._clock.now()}
        joint = "&" if "?" in endpoints.authorization else "?"
        packed = base64.urlsafe_b64encode(json.dumps(luggage).encode()).decode()
        sealed = f"{packed}.{_seal(packed, await self._load_key())}"
        return Departure(endpoints.authorization + joint + urlencode(asked), Secret(sealed))

    async def arrive(self, arrival: Arrival, peer: str) -> tuple[User, str]:
        """The user who came back, and where they wanted to go.

        Raises:
            ProviderRefused: this browser was not sent there lately, or the provider's word cannot be taken.
            Forbidden: nobody here is, or may be, whoever signed in there; or the user was deactivated.
            Unavailable: the provider does not answer.
            Busy: `peer` brought too much of late that the provider did not take.

        """
        luggage = self._unpack(arrival, await self._load_key())
        self._failures.check(peer, self._clock.monotonic())
        endpoints = await self._provider.load_endpoints()
        if (arrival.issuer or endpoints.sends_issuer) and arrival.issuer != self._settings.oidc_issuer:
            raise ProviderRefused(say("fault.other_provider"))
        if arrival.error or not arrival.code:
            raise ProviderRefused(say("fault.provider_no"), why=arrival.error[:100])
        exchange = Exchange(
            code=arrival.code,
            redirect_uri=self._redirect_uri,
            verifier=luggage["verifier"],
            nonce=luggage["nonce"],
        )
        try:
            claims = await self._provider.fetch_claims(exchange)
        except ProviderRefused:
            self._failures.count_failure(peer, self._clock.monotonic())
            raise
        identity, given = self._read_identity(claims), self._read_role(claims)
        user = await self._meet(identity, given, peer)
        if user is None:
            raise Forbidden(say("fault.no_group"), next_step=say("fault.no_group_next"))
        if not user.active:
            raise Forbidden(say("fault.deactivated", name=user.name), next_step=say("fault.ask_administrator"))
        return user, luggage["after"]

    async def _load_key(self) -> bytes:
        """What luggage is sealed with: the same after a restart, since somebody may be at the provider meanwhile."""
        if self._key is None:
            key = await self._ledger.write(lambda c: add_fact(c, _KEY_FACT, secrets.token_hex(32)))
            self._key = bytes.fromhex(key)
        return self._key

    def _unpack(self, arrival: Arrival, key: bytes) -> Mapping[str, str]:
        """What this browser was sent away with, if the answer is to that; nothing is read that was not sealed here."""
        packed, _, seal = arrival.luggage[:_LONGEST_COOKIE].partition(".")
        if not hmac.compare_digest(seal.encode(), _seal(packed, key).encode()):
            raise ProviderRefused(say("fault.no_journey"), next_step=say("fault.begin_anew"))
        try:
            luggage = json.loads(base64.urlsafe_b64decode(packed.encode()))
            began_at = float(luggage["at"])
            texts = {name: str(luggage[name]) for name in ("state", "nonce", "verifier", "after")}
        except (binascii.Error, ValueError, TypeError, KeyError) as error:
            raise ProviderRefused(say("fault.no_journey"), next_step=say("fault.begin_anew")) from error
        if not hmac.compare_digest(texts["state"].encode(), arrival.state.encode()):
            raise ProviderRefused(say("fault.other_journey"), next_step=say("fault.begin_anew"))
        if not 0 <= self._clock.now() - began_at <= JOURNEY_S:
            raise ProviderRefused(say("fault.journey_late"), next_step=say("fault.begin_anew"))
        return texts

    def _read_identity(self, claims: Mapping[str, Any]) -> Identity:
        claim = self._settings.oidc_user_claim
        value = claims.get(claim)
        if not isinstance(value, str) or not value:
            next_step = say("fault.provider_no_claim_next")
            raise ProviderRefused(say("fault.provider_no_claim", claim=claim), next_step=next_step)
        if claim == "email" and claims.get("email_verified") is not True:
            raise ProviderRefused(say("fault.provider_unverified"), next_step=say("fault.provider_unverified_next"))
        name = re.sub("@.*", "", value.strip().lower())
        check_user_name(name)
        return Identity(self._settings.oidc_issuer, str(claims["sub"]), name)

    def _read_role(self, claims: Mapping[str, Any]) -> Given | None:
        """The role that the groups give; None where roles are given here."""
        by_group, claim = self._settings.group_roles, self._settings.oidc_groups_claim
        if not by_group:
            return None
        told = claims.get(claim)
        groups = [told] if isinstance(told, str) else told
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            # Nobody is in no group only because the provider does not say in which.
            next_step = say("fault.provider_no_groups_next")
            raise ProviderRefused(say("fault.provider_no_claim", claim=claim), next_step=next_step)
        return Given(find_widest(by_group[group] for group in groups if group in by_group) or self._new_role)

    @property
    def _new_role(self) -> Role | None:
        wanted = self._settings.oidc_new_users
        return None if wanted == "none" else Role(wanted)

    async def _meet(self, identity: Identity, given: Given | None, peer: str) -> User | None:
        welcome = Welcome(self._settings.oidc_match == "name", self._new_role, given)
        actor = Actor(user=identity.name, via=Via.PAGE, at=self._clock.now(), peer=peer)
        user = await self._ledger.write(lambda c: sign_in_identity(c, identity, welcome, actor))
        self._accounts.forget_all()
        return user


def _seal(packed: str, key: bytes) -> str:
    return hmac.new(key, packed.encode(), hashlib.sha256).hexdigest()
