"""Both schemas whole: whoever goes over every table must have all the modules that declare some."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import MetaData

from starforge_console.ledger import (
    audit_table,
    device_tables,
    identity_table,
    kept_tables,
    metric_tables,
    share_tables,
    sweep_tables,
    tables,
    webhook_tables,
    window_tables,
)

SCHEMAS: Final[Mapping[str, MetaData]] = {"ledger": tables.ledger, "series": tables.series}
DECLARED_IN: Final = (
    audit_table,
    device_tables,
    identity_table,
    kept_tables,
    metric_tables,
    share_tables,
    sweep_tables,
    webhook_tables,
    window_tables,
)
