"""What every group of settings shares: it is read from `FORGE_` variables once, checked, and never changes."""

from pydantic_settings import BaseSettings, SettingsConfigDict


class Group(BaseSettings):
    """Settings that belong together."""

    model_config = SettingsConfigDict(env_prefix="FORGE_", frozen=True, extra="ignore", validate_default=True)
