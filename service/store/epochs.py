"""Epochs of islands that the worker of a run shares with other workers: published, taken, answered, and withdrawn.

All of it lasts as long as one attempt at the run: claims, releases and ends of runs forget what is left.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from tapestry.service.store.insertion import insert_if_new
from tapestry.service.store.records import AnsweredEpoch, Job, SharedEpoch
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import EpochRow, EpochVariantRow, LeaseRow

UNANSWERED = and_(EpochRow.answer.is_(None), EpochRow.fault.is_(None))


class Epochs:
    """The epochs that workers share with each other."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def share(self, job: Job, release: str, number: int, variant: str, content: bytes) -> bool:
        """Publish an epoch of a run for workers of a release; the arrays of its variant were stored before.

        Returns:
            Whether it was published: not when the job is another worker's in the meantime.
        """
        row = {"run_id": job.subject, "attempt": job.attempt, "number": number, "release": release}
        with self._database.writing() as connection:
            if not _is_held(connection, job):
                return False
            connection.execute(insert(EpochRow).values(**row, variant=variant, content=content))
            return True

    def put_variant(self, job: Job, token: str, content: bytes) -> None:
        """Store the arrays of a variant of a run, if the job is still its worker's."""
        with self._database.writing() as connection:
            if _is_held(connection, job):
                row = {"run_id": job.subject, "token": token, "content": content}
                insert_if_new(connection, EpochVariantRow, row)

    def variant(self, run_id: str, token: str) -> bytes:
        """Return the arrays of a variant.

        Raises:
            UnknownId: the run has ended, or goes on elsewhere.
        """
        query = select(EpochVariantRow.content).where(
            EpochVariantRow.run_id == run_id, EpochVariantRow.token == token
        )
        with self._database.reading() as connection:
            content = connection.scalar(query)
        if content is None:
            raise UnknownId(f"run {run_id} has no variant {token[:12]} any more")
        return content

    def take(self, worker: str, release: str) -> SharedEpoch | None:
        """Take the first open epoch of a run that a worker has; return None if there is none."""
        lives = and_(
            LeaseRow.kind == "run",
            LeaseRow.subject == EpochRow.run_id,
            LeaseRow.attempt == EpochRow.attempt,
            LeaseRow.owner.is_not(None),
        )
        columns = (EpochRow.run_id, EpochRow.attempt, EpochRow.number, EpochRow.variant, EpochRow.content)
        query = (
            select(*columns)
            .join(LeaseRow, lives)
            .where(EpochRow.taken_by.is_(None), EpochRow.release == release)
            .order_by(EpochRow.run_id, EpochRow.number)
            .limit(1)
        )
        with self._database.reading() as connection:  # most often there is nothing to take
            if connection.execute(query).first() is None:
                return None
        with self._database.writing() as connection:
            row = connection.execute(query.with_for_update(skip_locked=True, of=EpochRow)).first()
            if row is None:
                return None
            found = SharedEpoch(*row)
            connection.execute(update(EpochRow).where(_is(found)).values(taken_by=worker))
            return found

    def answer(self, epoch: SharedEpoch, worker: str, answer: bytes | None, fault: str | None = None) -> None:
        """Store the answer to a taken epoch, or what went wrong; nothing if it was withdrawn in the meantime."""
        mine = update(EpochRow).where(_is(epoch), EpochRow.taken_by == worker)
        with self._database.writing() as connection:
            connection.execute(mine.values(answer=answer, fault=fault))

    def unanswered(self, job: Job) -> dict[int, str | None]:
        """Return who has taken each epoch of a run without an answer, by its number; None where nobody has."""
        query = select(EpochRow.number, EpochRow.taken_by).where(_of(job), UNANSWERED)
        with self._database.reading() as connection:
            rows = connection.execute(query)
            return {row.number: row.taken_by for row in rows}

    def withdraw(self, job: Job, number: int, *, taken: bool = False) -> bool:
        """Withdraw an epoch that nobody has taken, or also a `taken` one; return whether it was still there."""
        which = [_of(job), EpochRow.number == number, UNANSWERED]
        which += [] if taken else [EpochRow.taken_by.is_(None)]
        with self._database.writing() as connection:
            return connection.execute(delete(EpochRow).where(*which)).rowcount == 1

    def answers(self, job: Job) -> tuple[AnsweredEpoch, ...]:
        """Return the epochs of a run that were answered, and withdraw them."""
        mine = and_(_of(job), ~UNANSWERED)
        with self._database.reading() as connection:
            if connection.execute(select(EpochRow.number).where(mine)).first() is None:
                return ()
        columns = (EpochRow.number, EpochRow.taken_by, EpochRow.answer, EpochRow.fault)
        with self._database.writing() as connection:
            rows = connection.execute(delete(EpochRow).where(mine).returning(*columns))
            return tuple(AnsweredEpoch(n, worker or "", answer, fault) for n, worker, answer, fault in rows)


def forget_epochs(connection: Connection, run_id: str) -> None:
    """Delete what an attempt at a run has shared, in the transaction in which it begins or ends."""
    connection.execute(delete(EpochRow).where(EpochRow.run_id == run_id))
    connection.execute(delete(EpochVariantRow).where(EpochVariantRow.run_id == run_id))


def _of(job: Job) -> ColumnElement[bool]:
    return and_(EpochRow.run_id == job.subject, EpochRow.attempt == job.attempt)


def _is(epoch: SharedEpoch) -> ColumnElement[bool]:
    return and_(
        EpochRow.run_id == epoch.run_id, EpochRow.attempt == epoch.attempt, EpochRow.number == epoch.number
    )


def _is_held(connection: Connection, job: Job) -> bool:
    """Return whether the attempt at a job is still its worker's."""
    mine = (LeaseRow.kind == job.kind, LeaseRow.subject == job.subject, LeaseRow.owner == job.owner)
    query = select(LeaseRow.subject).where(*mine, LeaseRow.attempt == job.attempt).with_for_update(read=True)
    return connection.execute(query).first() is not None
