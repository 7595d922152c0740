"""What a job's image was pinned to, in the ledger: at its admission, and by what its first attempt ran."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from starforge_console.ledger.tables import attempts, jobs


class ImagePins(NamedTuple):
    """Digests of the job's image: as its registry told at admission, and as the first attempt that told of one ran."""

    admitted: str | None
    ran: str | None


def load_image_pins(connection: Connection, job_id: str) -> ImagePins:
    """What is known of the job's image; nothing for a job that is not there."""
    admitted = connection.execute(select(jobs.c.image_digest).where(jobs.c.id == job_id)).scalar()
    ran = connection.execute(
        select(attempts.c.image_digest)
        .where(attempts.c.job_id == job_id, attempts.c.image_digest.is_not(None))
        .order_by(attempts.c.number)
        .limit(1)
    ).scalar()
    return ImagePins(admitted, ran)
