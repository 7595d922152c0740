"""Renders templates: the words, the assets and the headers that every page has."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.responses import HTMLResponse

import starforge
from starforge.contract.combinations import describe_combination
from starforge_console.web.i18n.words import LANGUAGES, Words
from starforge_console.web.pages import formats
from starforge_console.web.pages.assets import Assets
from starforge_console.web.pages.visit import Visit

TEMPLATES: Final = Path(__file__).parents[1] / "templates"
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
            "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "Vary": "Accept-Language, Cookie",
        "X-Content-Type-Options": "nosniff",
    }
)


class Look:
    """The templates and what they are rendered with."""

    def __init__(self, assets: Assets, public_url: str) -> None:
        self._assets = assets
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=formats.clean_value,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "asset": assets.url,
            "icon": self._icon,
            "languages": LANGUAGES,
            "public_url": public_url.rstrip("/"),
            "version": starforge.__version__,
        }
        self._environment.filters |= {
            "ago": formats.ago,
            "duration": formats.duration,
            "figure": formats.figure,
            "moment": formats.moment,
            "reading": formats.reading,
            "said": _say,
            "short_digest": formats.short_digest,
            "since": formats.since,
            "size": formats.size,
            "tojson_lines": formats.as_json_lines,
            "tojson_text": formats.as_json,
            "combination": describe_combination,
            "units": formats.units_of,
        }

    def page(self, visit: Visit, template: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401 - whatever the template names
        """A whole page as an answer."""
        text = self.part(visit.words, template, visit=visit, **values)
        answer = HTMLResponse(text, status_code=status, headers=dict(HEADERS))
        visit.keep(answer)
        return answer

    def part(self, words: Words, template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template names
        """A template as text."""
        return self._environment.get_template(template).render(t=words, **values)

    def _icon(self, name: str, classes: str = "i s") -> Markup:
        sprite = self._assets.url("icons.svg")
        return Markup('<svg class="{}" aria-hidden="true"><use href="{}#{}"/></svg>').format(classes, sprite, name)


@pass_context
def _say(context: Context, text: str) -> Markup:
    """A sentence in the language of the page."""
    words: Words = context["t"]
    return words.said(text)
