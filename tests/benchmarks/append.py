"""Appending to the event log against bare sqlite3: `python tests/benchmarks/append.py [--rounds N]`.

The floor inserts the very rows that the log stores (all six columns, the digest included, made
beforehand) into the same table with the same durability: write-ahead log, synchronous FULL, BEGIN
IMMEDIATE, executemany, one transaction a batch. It encodes nothing, digests nothing and checks nothing.
The second floor also encodes the facts and computes the chain. The ways take turns within each round;
the table has medians of facts per second, and the log's ratio to either floor.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from recorder.eventlog.chain import GENESIS, TABLE, link
from recorder.eventlog.mapper import encode
from recorder.events import Body, EntryAdded, Fact
from recorder.home import open_home
from recorder.log import open_log

Row = tuple[int, str, int, str, bytes, bytes]

BATCHES = {1: 200, 10: 1_000, 100: 5_000, 1_000: 20_000}
"""Facts of a batch, and of a round."""

STREAM = UUID(int=0x5E55104)


def entry(version: int) -> Fact:
    """A fact of about 400 bytes, as most of a session's are."""
    return EntryAdded(
        originator_id=STREAM,
        originator_version=version,
        at=1_700_000_000_000_000_000 + version,
        time="2026-01-01T00:00:00.000Z",
        entry=f"{version:08x}-0000-4000-8000-000000000000",
        parent=f"{version - 1:08x}-0000-4000-8000-000000000000",
        kind="answer",
        raw_type="assistant",
        in_tree=True,
        copied=False,
        understood=True,
        body=Body(f"{version:064x}", 4_096),
        excerpt="what the answer says, cut to a line or two " * 3,
    )


def rows_of(facts: Sequence[Fact]) -> list[Row]:
    rows = []
    digest = GENESIS
    for position, fact in enumerate(facts, 1):
        topic, state = encode(fact)
        stream = fact.originator_id.hex
        digest = link(digest, position, stream.encode(), position, topic.encode(), state)
        rows.append((position, stream, position, topic, state, digest))
    return rows


def batches(items: Sequence[object], size: int) -> Iterator[Sequence[object]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def bare(folder: Path, size: int, facts: Sequence[Fact]) -> float:
    rows = rows_of(facts)
    return _timed_bare(folder, lambda: batches(rows, size))


def bare_and_digests(folder: Path, size: int, facts: Sequence[Fact]) -> float:
    def encoded() -> Iterator[Sequence[object]]:
        digest, position = GENESIS, 0
        for batch in batches(facts, size):
            rows = []
            for fact in batch:
                assert isinstance(fact, Fact)
                position += 1
                topic, state = encode(fact)
                stream = fact.originator_id.hex
                digest = link(digest, position, stream.encode(), position, topic.encode(), state)
                rows.append((position, stream, position, topic, state, digest))
            yield rows

    return _timed_bare(folder, encoded)


def _timed_bare(folder: Path, rows: Callable[[], Iterator[Sequence[object]]]) -> float:
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(TABLE)
    started = time.perf_counter()
    for batch in rows():
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO stored_events VALUES (?,?,?,?,?,?)", batch)
        connection.execute("COMMIT")
    taken = time.perf_counter() - started
    connection.close()
    return taken


def ours(folder: Path, size: int, facts: Sequence[Fact]) -> float:
    with open_log(open_home(folder / "home")) as log:
        started = time.perf_counter()
        for start in range(0, len(facts), size):
            log.append(facts[start : start + size])
        return time.perf_counter() - started


WAYS = (bare, bare_and_digests, ours)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=7)
    rounds: int = options.parse_args().rounds
    print("| facts a batch | bare sqlite3 | the same, encoding and digesting | EventLog.append | ratios |")
    print("|--:|--:|--:|--:|--:|")
    for size, count in BATCHES.items():
        facts = [entry(version) for version in range(1, count + 1)]
        taken: dict[str, list[float]] = {way.__name__: [] for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                with tempfile.TemporaryDirectory() as folder:
                    taken[way.__name__].append(way(Path(folder), size, facts))
        floor, second, mine = (count / median(taken[way.__name__]) for way in WAYS)
        ratios = f"{mine / floor:.2f}, {mine / second:.2f}"
        print(f"| {size} | {floor:,.0f} | {second:,.0f} | {mine:,.0f} | {ratios} |")


if __name__ == "__main__":
    main()
