"""Queries of `wirelake lake verify`: deliveries and sign-ons by DuckDB, and what differs.

They are templates: `share` of `shares` is the sample, and `expired` the time before which rows may
have been dropped. What they read is there under its name: the tables of the lake, and those of
`wirelake.records.cross_connection`, derived anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import duckdb

__all__ = [
    "CALL_TIME",
    "DELIVERIES_ANEW",
    "MERGED",
    "PREVIOUS_WRONG",
    "SAID_ONCE",
    "TUNNEL_TIME",
    "differences",
]

CALL_TIME: Final = "coalesce(response_ns, request_ns)"
"""When a call was."""
TUNNEL_TIME: Final = "last_ns"
"""When a tunnel was."""
_SAMPLED: Final = "hash(coalesce(client, whom::varchar)) % {shares} = {share}"

DELIVERIES_ANEW: Final = f"""
create or replace temp table deliveries_anew as
with parts as (
    select protocol, client, case when client is null then connection end as whom, notification,
           sends, first_sent_ns, first_connection, last_sent_ns, last_connection, acks, acked_ns,
           acked_connection, published_ns
    from _delivery_parts
    union all by name
    select protocol, client, null as whom, notification, 0 as sends, 0 as acks
    from _publications where client is not null),
merged as (
    select protocol, client, whom, notification,
           sum(sends)::bigint as sends, sum(acks)::bigint as acks,
           min(struct_pack(ts := first_sent_ns, at := first_connection))
               filter (first_sent_ns is not null) as first,
           max(struct_pack(ts := last_sent_ns, at := last_connection))
               filter (last_sent_ns is not null) as last,
           min(struct_pack(ts := acked_ns, at := acked_connection))
               filter (acked_ns is not null) as acked,
           min(published_ns) as said_ns
    from parts where {_SAMPLED}
    group by protocol, client, whom, notification),
facts as (
    select notification,
           min(struct_pack(ts := ts_ns, unnamed := topic is null, topic := topic)) as fact
    from _publications group by notification),
hidden as (
    select client, case when client is null then connection end as whom, max(ts_ns) as ts_ns
    from _delivery_faults group by all)
select notification, protocol, merged.client, merged.whom,
       case when first is not null and acked is not null then 'acked'
            when first is not null and hidden.ts_ns >= first.ts then 'unknown'
            when first is not null then 'unacked'
            when acked is not null then 'orphan'
            else 'unsent' end as outcome,
       fact.topic as topic, coalesce(fact.ts, said_ns) as published_ns,
       first.ts as first_sent_ns, last.ts as last_sent_ns, sends, acked.ts as acked_ns, acks,
       acked.ts - first.ts as latency_ns, first.at as first_connection,
       last.at as last_connection, acked.at as acked_connection
from merged
left join facts using (notification)
left join hidden on hidden.client is not distinct from merged.client
    and hidden.whom is not distinct from merged.whom
"""
"""The rows of `deliveries` that the captures give, by the rules of the page; `whom` is the
connection that stands for a client who is not known."""

MERGED: Final = f"""
create or replace temp table dropped as
select protocol, client, whom, notification from deliveries_anew
where least(published_ns, first_sent_ns, acked_ns) < {{expired}};
delete from deliveries_anew as d where exists (
    select 1 from dropped where dropped.protocol = d.protocol
        and dropped.client is not distinct from d.client
        and dropped.whom is not distinct from d.whom and dropped.notification = d.notification);
create or replace temp table sampled_here as
with known as (
    select *, case when client is null
                   then coalesce(first_connection, acked_connection) end as whom
    from deliveries)
select * from known as d where {_SAMPLED} and not exists (
    select 1 from dropped where dropped.protocol = d.protocol
        and dropped.client is not distinct from d.client
        and dropped.whom is not distinct from d.whom and dropped.notification = d.notification);
create or replace temp table keys_here as
select protocol, client, whom, notification, count(*) as rows from sampled_here group by all;
create or replace temp view merged_here as
select protocol, client, whom, notification, sum(sends)::bigint as sends, sum(acks)::bigint as acks,
       min(struct_pack(ts := first_sent_ns, at := first_connection))
           filter (first_sent_ns is not null) as first,
       max(struct_pack(ts := last_sent_ns, at := last_connection))
           filter (last_sent_ns is not null) as last,
       min(struct_pack(ts := acked_ns, at := acked_connection))
           filter (acked_ns is not null) as acked
from sampled_here group by protocol, client, whom, notification;
create or replace temp view merged_anew as
select protocol, client, whom, notification, sends, acks,
       case when first_sent_ns is not null
            then struct_pack(ts := first_sent_ns, at := first_connection) end as first,
       case when last_sent_ns is not null
            then struct_pack(ts := last_sent_ns, at := last_connection) end as last,
       case when acked_ns is not null
            then struct_pack(ts := acked_ns, at := acked_connection) end as acked
from deliveries_anew
"""
"""What must be equal for each notification and client, even if a lake tells them in two rows."""

SAID_ONCE: Final = """
    select d.protocol, d.client, d.whom, d.notification, topic, published_ns, latency_ns,
           case when outcome = 'unknown' and coalesce(last_sent_ns, 0) <
                     (select max(last_sent_ns) from deliveries) - 86400000000000
                then 'unacked' else outcome end as outcome
    from {table} as d join keys_here as k
        on k.protocol = d.protocol and k.notification = d.notification
        and k.client is not distinct from d.client and k.whom is not distinct from d.whom
    where k.rows = 1"""
"""The rest of the columns, of those in one row. What is silent for a day is final: a fault that
comes later does not make it unknown."""

PREVIOUS_WRONG: Final = """
with before as (
    select connection, client, ts_ns as signed_on_ns,
           lag(connection) over (partition by protocol, client order by ts_ns, connection) as was
    from (select distinct protocol, client, connection, ts_ns from _sign_ons)),
found as (
    select connection, client, signed_on_ns, max(was) as was from before group by all)
select count(*) from connections as c left join found as f
    on f.connection = c.connection and f.client = c.client and f.signed_on_ns = c.signed_on_ns
where hash(c.client) % {shares} = {share} and c.last_ns >= {expired}
    and c.previous_connection is distinct from f.was
"""
"""How many connections of sampled clients name another connection before than the captures do."""


def differences(db: duckdb.DuckDBPyConnection, name: str, here: str, anew: str) -> Iterator[str]:
    """How many rows of one table are not in the other, in words."""
    missing, extra = (
        db.sql(f"select count(*) from ((from {one}) except all (from {other}))").fetchall()[0][0]
        for one, other in ((anew, here), (here, anew))
    )
    if missing:
        yield f"{name}: {missing} rows are missing or different"
    if extra:
        yield f"{name}: {extra} rows are in the lake that the captures do not give"
