"""How long things stay that ended jobs left, and whether the console lets them go by itself."""

from typing import Final, Literal

from pydantic import Field

from starforge_console.domain.retention import Terms
from starforge_console.settings.group import Group

DAY_S: Final = 86_400.0


class RetentionSettings(Group):
    """What ended jobs leave, and how long it stays; nothing goes of a job that runs, goes on or is started from."""

    retention: Literal["on", "off"] = Field(
        default="on",
        description="on: the console itself removes what is over its time; off: only 'sf admin gc --apply' does.",
    )
    retention_period_s: float = Field(
        default=3600.0, ge=1, le=7 * DAY_S, description="Time between two looks for what is over its time."
    )
    work_retention_s: float = Field(
        default=7 * DAY_S, ge=0, description="How long an ended job keeps the working directories of its attempts."
    )
    log_retention_s: float = Field(default=90 * DAY_S, ge=0, description="How long an ended job keeps its logs.")
    checkpoint_retention_s: float = Field(
        default=7 * DAY_S,
        ge=0,
        description="How long an ended job keeps all its checkpoints; then the last and the best.",
    )
    checkpoints_kept: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="So many of the last committed checkpoints stay for good; beside them the best one stays.",
    )
    blob_retention_s: float = Field(
        default=14 * DAY_S, ge=0, description="How long a packed workspace stays that no job refers to any more."
    )

    def build_terms(self, container_s: float) -> Terms:
        """These times, and how long an ended container stays, as the rules take them."""
        return Terms(
            container_s=container_s,
            work_s=self.work_retention_s,
            log_s=self.log_retention_s,
            checkpoint_s=self.checkpoint_retention_s,
            checkpoints_kept=self.checkpoints_kept,
            blob_s=self.blob_retention_s,
        )
