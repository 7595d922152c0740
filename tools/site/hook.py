"""Makes the site of one language out of `docs`: its pages come to the top, those of the other language stay out."""

from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files

LANGUAGES: Final = ("en", "zh-Hans")
_FOR_THE_REPOSITORY: Final = ("index.md", "ops/")
"""Pages that only lead to both languages."""


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
