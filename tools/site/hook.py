"""Makes the site of one language out of `docs`: its pages come to the top, those of the other language stay out."""

import re
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LANGUAGES: Final = ("en", "zh-Hans")
_FOR_THE_REPOSITORY: Final = ("index.md", "ops/")
"""Pages that only lead to both languages."""
_PREFORMATTED: Final = re.compile(r"(<pre.*?</pre>)", re.DOTALL)
_WITHIN_CHINESE: Final = re.compile(
    r"(?<=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])\n(?=[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of the language that `extra.tongue` names, and those that are of no language."""
    own = config.extra["tongue"]
    others = tuple(f"{language}/" for language in LANGUAGES if language != own)
    for file in list(files):
        if file.src_uri.startswith((*others, *_FOR_THE_REPOSITORY)):
            files.remove(file)
        elif file.src_uri.startswith(f"{own}/"):
            file.dest_uri = file.dest_uri.removeprefix(f"{own}/")
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the signature
    """Chinese has no blanks between words: where a line of the source ends, a browser would show one."""
    parts = _PREFORMATTED.split(html)
    return "".join(part if part.startswith("<pre") else _WITHIN_CHINESE.sub("", part) for part in parts)
