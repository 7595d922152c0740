"""One request for a page: who asks, in which language and theme, and the forms that they may send."""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import Response

from starforge.contract.states import JobState
from starforge.errors import InputError, SignInRequired
from starforge.said.sentence import say
from starforge_console.accounts.sessions import IDLE_S, Sessions, build_form_key
from starforge_console.accounts.sign_in import check_scope, owns
from starforge_console.domain.roles import Scope
from starforge_console.errors import Forbidden
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.audit import Via, act_as
from starforge_console.ledger.views import count_in_states
from starforge_console.web.deps import build_actor
from starforge_console.web.i18n.words import Words, choose_language, load_words

SESSION_COOKIE: Final = "starforge_session"
VISITOR_COOKIE: Final = "starforge_visitor"
LANGUAGE_COOKIE: Final = "starforge_language"
THEME_COOKIE: Final = "starforge_theme"
THEMES: Final = ("auto", "light", "dark")
FORM_KEY: Final = "form_key"
FIRST_PAGE: Final = "/overview"
"""Where a reader goes who asked for no page."""
COUNTED: Final = (JobState.RUNNING, JobState.QUEUED)
YEAR_S: Final = 365 * 24 * 3600
FIELDS_AT_MOST: Final = 1000
_NO_ORIGIN: Final = "null"
_OUR_OWN: Final = frozenset({"same-origin", "none"})


@dataclass(slots=True)
class Visit:
    """What is known of a request. `account` is None for a visitor who has not signed in."""

    words: Words
    theme: str
    here: str
    form_key: str
    account: Account | None
    secure: bool
    had_session: bool = False
    new_session: str | None = None
    new_visitor: str | None = None
    cookies: dict[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    """How many jobs are in the states that the side bar tells of."""

    @property
    def is_admin(self) -> bool:
        """Whether this session may do everything."""
        return self.account is not None and self.account.administers

    @property
    def is_operator(self) -> bool:
        """Whether this session looks after machines, queue and everybody's jobs; administrators do."""
        return self.account is not None and self.account.operates

    @property
    def user(self) -> str:
        """Who is signed in; empty for a visitor."""
        return "" if self.account is None else self.account.user

    @property
    def widest_scope(self) -> str:
        """The scope of this session that allows most; empty for a visitor."""
        held = frozenset() if self.account is None else self.account.scopes
        return next((scope.value for scope in reversed(Scope) if scope.value in held), "")

    def may_change(self, owner_id: int) -> bool:
        """Whether this session may stop and delete what belongs to `owner_id`."""
        account = self.account
        return account is not None and Scope.SUBMIT.value in account.scopes and owns(account, owner_id)

    @property
    def may_submit(self) -> bool:
        """Whether this session may submit jobs."""
        return self.account is not None and Scope.SUBMIT.value in self.account.scopes

    def keep(self, answer: Response) -> None:
        """Set the cookies that this visit brought about."""
        for name, value, life_s in (
            (SESSION_COOKIE, self.new_session, int(IDLE_S)),
            (VISITOR_COOKIE, self.new_visitor, YEAR_S),
            *((name, value, YEAR_S) for name, value in self.cookies.items()),
        ):
            if value is not None:
                answer.set_cookie(name, value, max_age=life_s, httponly=True, samesite="lax", secure=self.secure)

    def sign_in(self, session: str, account: Account) -> None:
        """Go on as the reader whose session was just opened."""
        self.new_session, self.account, self.form_key = session, account, build_form_key(session)


async def visit_of(request: Request) -> Visit:
    """The visit that `request` is part of; a session that is used lives on."""
    sessions: Sessions = request.app.state.pages.sessions
    text = request.cookies.get(SESSION_COOKIE)
    account = await sessions.find(text) if text else None
    visit = visitor_of(request)
    if account is not None and text is not None:
        visit.account, visit.form_key, visit.new_session = account, build_form_key(text), text
        act_as(build_actor(account, Via.PAGE, request))
    return visit


def visitor_of(request: Request) -> Visit:
    """The visit without a look at the ledger: as somebody who has not signed in."""
    visitor = request.cookies.get(VISITOR_COOKIE)
    fresh = None if visitor else secrets.token_urlsafe(16)
    theme = request.cookies.get(THEME_COOKIE, "")
    language = choose_language(request.cookies.get(LANGUAGE_COOKIE), request.headers.get("accept-language", ""))
    query = f"?{request.url.query}" if request.url.query else ""
    return Visit(
        words=load_words(language),
        theme=theme if theme in THEMES else "auto",
        here=request.url.path + query,
        form_key=build_form_key(visitor or fresh or ""),
        account=None,
        secure=request.app.state.services.settings.http.public_url.startswith("https:"),
        new_visitor=fresh,
        had_session=SESSION_COOKIE in request.cookies,
    )


async def signed_visit_of(visit: Annotated[Visit, Depends(visit_of)], request: Request) -> Visit:
    """The visit of somebody who has signed in and may read. Raises SignInRequired, Forbidden."""
    account_of(visit)
    visit.counts = await request.app.state.services.ledger.read(lambda c: count_in_states(c, COUNTED))
    return visit


async def load_form(request: Request, visit: Visit) -> FormData:
    """The form that was sent, if one of our own pages sent it.

    Raises:
        InputError: it cannot be read, or has too many fields.
        Forbidden: it lacks this session's key, or another site sent it.

    """
    form = await _read_form(request)
    given = form.get(FORM_KEY)
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), visit.form_key.encode()):
        raise Forbidden(
            say("form.refused"),
            why=say("form.refused_key"),
            next_step=say("form.reload"),
        )
    _check_site(request)
    return form


def text_of(form: FormData, name: str, longest: int = 1000) -> str:
    """One field's text without surrounding blanks; empty when it is missing."""
    value = form.get(name, "")
    return value.strip()[:longest] if isinstance(value, str) else ""


async def _read_form(request: Request) -> FormData:
    # Our forms are sent urlencoded. The other kind is decoded as its sender says, and some of Python's codecs take
    # minutes for what they cannot read: nobody is signed in here yet.
    if request.headers.get("content-type", "").lstrip().lower().startswith("multipart/"):
        raise InputError(say("form.unread"), why=say("form.unread_kind"), next_step=say("form.reload"))
    try:
        return await request.form(max_files=0, max_fields=FIELDS_AT_MOST)
    except HTTPException as error:
        raise InputError(say("form.unread"), why=error.detail, next_step=say("form.reload")) from error


def _check_site(request: Request) -> None:
    """Raises Forbidden for what the browser says was sent by another site.

    Browsers send the origin `null` for forms of pages that, as ours do, keep their address to themselves.
    """
    site, origin = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin", _NO_ORIGIN)
    public_url: str = request.app.state.services.settings.http.public_url
    ours = {_NO_ORIGIN, request.headers.get("host", "").lower(), urlsplit(public_url).netloc.lower()}
    if site in _OUR_OWN and origin.lower().removeprefix("https://").removeprefix("http://") in ours:
        return
    raise Forbidden(
        say("form.refused"),
        why=say("form.refused_site", site=site if site not in _OUR_OWN else origin[:200]),
        next_step=say("form.refused_site_next"),
    )


def safe_path(path: str) -> str:
    """`path` if it leads to a page of ours, else the first page."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else FIRST_PAGE


Anybody = Annotated[Visit, Depends(visit_of)]
Signed = Annotated[Visit, Depends(signed_visit_of)]


def account_of(visit: Visit) -> Account:
    """Whoever is signed in and may read. Raises SignInRequired, Forbidden."""
    if visit.account is None:
        raise SignInRequired("this page needs a session", next_step="sign in")
    check_scope(visit.account, Scope.READ)
    return visit.account
