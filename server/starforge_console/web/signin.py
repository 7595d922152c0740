# ruff: noqa: RUF001 - full-width punctuation belongs to Chinese
"""The sign-in page: one button that spends a sign-in code and shows a personal token, once. No JavaScript."""

import base64
import hashlib
import html
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from starforge.errors import Busy, StarForgeError
from starforge_console.errors import status_of
from starforge_console.web.deps import Services, peer_of

router = APIRouter(include_in_schema=False)

_STYLE: Final = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 40rem; margin: 12vh auto 0; padding: 0 1rem; }
h1 { font-size: 1.4rem; }
pre { padding: .8rem; border: 1px solid #8888; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
button { font: inherit; padding: .5rem 1.2rem; border-radius: 6px; border: 1px solid #8888; cursor: pointer; }
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        ),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Language",
    }
)

_ENGLISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lang": "en",
        "title": "Sign in to StarForge",
        "explain": "This link works once. The button makes a personal token for the command line and shows it here.",
        "button": "Show my token",
        "done": "Your personal token",
        "once": "It is shown this one time. Keep it like a password; it is valid for 90 days.",
        "login": "On your machine, run this line and paste the token when you are asked for it:",
        "refused": "This sign-in link cannot be used",
        "again": "It is unknown, used or older than an hour. An administrator makes a new one on the console's host:",
        "busy": "Too many failed sign-ins came from your address. Wait a minute, then load the page again.",
    }
)
_CHINESE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lang": "zh-Hans",
        "title": "登录 StarForge",
        "explain": "此链接只能使用一次。点击按钮会生成一个供命令行使用的个人令牌，并显示在这里。",
        "button": "显示我的令牌",
        "done": "您的个人令牌",
        "once": "令牌只显示这一次。请像密码一样妥善保管；有效期为 90 天。",
        "login": "在您的电脑上运行下面的命令，并在提示时粘贴令牌：",
        "refused": "此登录链接无法使用",
        "again": "链接不存在、已被使用或超过一小时。管理员可以在控制台所在的机器上生成新的链接：",
        "busy": "来自您的地址的登录失败次数过多。请等待一分钟，然后重新打开此页面。",
    }
)


@router.get("/signin/{code}")
async def show_button(request: Request, code: str) -> Response:  # noqa: ARG001 - the code is spent by the button alone
    """The page with the button. It says nothing about the code: opening a link, as previews do, spends nothing."""
    words = choose_language(request.headers.get("accept-language", ""))
    body = f"<p>{words['explain']}</p><form method='post'><button>{words['button']}</button></form>"
    return _page(words, words["title"], body)


@router.post("/signin/{code}")
async def spend_code(services: Services, request: Request, code: str) -> Response:
    """Spend the code and show the token that it gives."""
    words = choose_language(request.headers.get("accept-language", ""))
    try:
        issued = await services.accounts.spend_sign_in_code(code, peer_of(request))
    except Busy as error:
        return _page(words, words["refused"], f"<p>{words['busy']}</p>", status_of(error))
    except StarForgeError as error:
        body = f"<p>{words['again']}</p><pre>starforge-console init --new-link</pre>"
        return _page(words, words["refused"], body, status_of(error))
    login = f"sf login --server {services.settings.http.public_url.rstrip('/')}"
    body = (
        f"<pre>{html.escape(issued.text.reveal())}</pre><p>{words['once']}</p>"
        f"<p>{words['login']}</p><pre>{html.escape(login)}</pre>"
    )
    return _page(words, words["done"], body)


def choose_language(accepted: str) -> Mapping[str, str]:
    """The page's words in the language that the reader prefers: Chinese where it is named before English."""
    best = ("", 0.0)
    for part in accepted.split(","):
        tag, _, weight = part.strip().partition(";q=")
        primary = tag.strip().lower().split("-")[0]
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        if primary in {"zh", "en"} and quality > best[1]:
            best = (primary, quality)
    return _CHINESE if best[0] == "zh" else _ENGLISH


def _page(words: Mapping[str, str], heading: str, body: str, status: int = 200) -> Response:
    page = (
        f"<!doctype html><html lang='{words['lang']}'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{words['title']}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{heading}</h1>{body}</main></body></html>"
    )
    return HTMLResponse(page, status_code=status, headers=dict(_HEADERS))
