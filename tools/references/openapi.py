"""The document docs/dev/openapi.json: the API as the console's own routes describe it."""

import json

from starforge_console.web.api import build_document


def build_page() -> str:
    """The whole document, the same text for the same routes."""
    return json.dumps(build_document(), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
