"""A trigger that keeps every version of every inbox, and who wrote it; and who had the claim."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec
import psycopg
from tests.hub.cluster.checker.history import History

__all__ = ["Audit"]

# `until > now()`: now() is when the transaction began. It locks the claim, so that nobody takes the
# client before its end, even if the lease ends and another hub gets the number. So names and leases
# are kept by epoch.
_INSTALL = """
    CREATE SCHEMA audit;
    CREATE TABLE audit.inboxes (
        place bigserial PRIMARY KEY, client text, cursor bigint, state bytea,
        writer text, holder text, valid bool);
    CREATE TABLE audit.hubs (epoch bigint PRIMARY KEY, name text, until timestamptz);
    INSERT INTO audit.hubs SELECT epoch, name, until FROM wirelake.hubs;
    CREATE FUNCTION audit.keep_hub() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO audit.hubs VALUES (NEW.epoch, NEW.name, NEW.until)
        ON CONFLICT (epoch) DO UPDATE SET until = excluded.until;
        RETURN NEW;
    END $$;
    CREATE TRIGGER keep_hub AFTER INSERT OR UPDATE ON wirelake.hubs
        FOR EACH ROW EXECUTE FUNCTION audit.keep_hub();
    CREATE FUNCTION audit.keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO audit.inboxes (client, cursor, state, writer, holder, valid)
        SELECT (SELECT id FROM wirelake.clients WHERE number = NEW.client), NEW.cursor, NEW.state,
            current_setting('application_name'), found.name, found.until > now()
        FROM (SELECT 1) AS one LEFT JOIN LATERAL (
            SELECT name, until FROM wirelake.claims JOIN audit.hubs USING (epoch)
            WHERE claims.client = NEW.client) AS found ON true;
        RETURN NEW;
    END $$;
    CREATE TRIGGER keep AFTER INSERT OR UPDATE ON wirelake.inboxes
        FOR EACH ROW EXECUTE FUNCTION audit.keep();
"""
_NEW = """
    SELECT place, client, cursor, state, writer, holder, coalesce(valid, false) FROM audit.inboxes
    WHERE place > %s ORDER BY place LIMIT 5000
"""


class Audit:
    """Reads what the trigger has kept, into a history."""

    def __init__(self, url: str, history: History):
        self._url = url
        self._history = history
        self._place = 0
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_INSTALL)

    async def run(self) -> None:
        """Read until it is cancelled."""
        while True:
            with suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True
                ) as connection:
                    while True:
                        await self._read(connection)
                        await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)

    async def read_rest(self) -> None:
        """Read what is left."""
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            await self._read(connection)

    async def _read(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        cursor = await connection.execute(_NEW, (self._place,))
        for place, client, up_to, state, writer, holder, valid in await cursor.fetchall():
            self._place = place
            spans, steps = msgspec.msgpack.decode(state) if state else ([], [])
            holes, number = [], 0
            for step in steps:
                number += step
                holes.append(number)
            values = {"cursor": up_to, "spans": spans, "holes": holes}
            self._history.add(
                "stored", client=client, **values, by=writer, holder=holder, valid=valid
            )
