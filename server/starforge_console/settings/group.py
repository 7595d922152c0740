"""What every group of settings shares: it is read from `FORGE_` variables once, checked, and never changes."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Group(BaseSettings):
    """Settings that belong together."""

    model_config = SettingsConfigDict(env_prefix="FORGE_", frozen=True, extra="ignore", validate_default=True)


def require_absolute(path: Path) -> Path:
    """`path`. Raises ValueError where it is not absolute."""
    if not path.is_absolute():
        message = "must be an absolute path"
        raise ValueError(message)
    return path


AbsolutePath = Annotated[Path, AfterValidator(require_absolute)]
