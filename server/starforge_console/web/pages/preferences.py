"""The reader's language and theme: cookies that a form sets."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from starforge_console.web.i18n.words import LANGUAGES
from starforge_console.web.pages.visit import (
    LANGUAGE_COOKIE,
    THEME_COOKIE,
    THEMES,
    Anybody,
    load_form,
    safe_path,
    text_of,
)

router = APIRouter(include_in_schema=False)


@router.post("/preferences")
async def set_preferences(visit: Anybody, request: Request) -> Response:
    """Keep what the form names, and go back to where it was sent from."""
    form = await load_form(request, visit)
    theme, language = text_of(form, "theme"), text_of(form, "language")
    if theme in THEMES:
        visit.cookies[THEME_COOKIE] = theme
    if language in LANGUAGES:
        visit.cookies[LANGUAGE_COOKIE] = language
    answer = RedirectResponse(safe_path(text_of(form, "back", 2000)), 303, {"Cache-Control": "no-store"})
    visit.keep(answer)
    return answer
