from __future__ import annotations

import hashlib
import shutil
import sqlite3
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.errors import IntegrityFailure, LogFailure
from recorder.eventlog.chain import GENESIS, PAGE
from recorder.home import Home, open_home
from recorder.log import open_log
from tests.log.samples import OTHER, run, runs

COUNT = 8
COLUMNS = ("originator_id", "originator_version", "topic", "state", "digest")
quick = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Home:
    """A log of eight facts in two streams, closed, so that all of it is in one file."""
    home = open_home(tmp_path_factory.mktemp("whole") / "home")
    with open_log(home) as log:
        log.append([*runs(1, 4), *runs(1, 2, OTHER)])
        log.append(runs(3, 4, OTHER))
    return home


class Tampered:
    """A copy of a home, whose log may be changed with SQL or byte by byte."""

    def __init__(self, home: Home, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(home.folder, folder)
        self.home = Home(folder)

    def sql(self, statement: str, *values: object) -> None:
        connection = sqlite3.connect(self.home.log, isolation_level=None)
        connection.execute(statement, values)
        connection.close()

    def broken(self) -> list[int]:
        with open_log(self.home) as log:
            return [broken.position for broken in log.check()]


@pytest.fixture(scope="module")
def tampered(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tampered") / "home"
    return lambda: Tampered(whole, folder)


def test_an_untouched_log_is_whole(whole):
    """Facts in several streams, batches and pages."""
    with open_log(whole) as log:
        assert list(log.check()) == []
        assert log.head().position == COUNT


def test_more_than_one_page_is_walked(log, sql):
    """A row behind the first page is checked against the one before it, on the page before."""
    log.append(runs(1, PAGE + 2))
    assert list(log.check()) == []

    sql("UPDATE stored_events SET digest=zeroblob(32) WHERE rowid=?", PAGE)
    assert [broken.position for broken in log.check()] == [PAGE, PAGE + 1]


def test_the_digest_is_what_the_documentation_says(log, sql):
    """SHA-256 over previous digest, position, version, lengths, stream, topic and bytes: an own verifier
    can be written from the words alone."""
    log.append(runs(1, 2))

    previous = GENESIS
    for position, stream, version, topic, state, digest in sql("SELECT * FROM stored_events"):
        words = stream.encode(), topic.encode(), state
        previous = hashlib.sha256(
            previous + struct.pack(">QQIII", position, version, *map(len, words)) + b"".join(words)
        ).digest()
        assert digest == previous
    assert log.head().digest == previous.hex()


def test_the_head_depends_on_everything_before_it(tmp_path):
    """Two logs whose first facts differ have different heads after the same second fact."""
    heads = []
    for name in "ab":
        with open_log(open_home(tmp_path / name)) as log:
            log.append([run(1, run=name), run(2)])
            heads.append(log.head().digest)

    assert heads[0] != heads[1]


@quick
@given(
    row=st.integers(1, COUNT),
    column=st.sampled_from(COLUMNS),
    place=st.floats(0, 0.999),
    bit=st.integers(0, 7),
)
def test_any_changed_bit_of_a_row_is_found(tampered, row, column, place, bit):
    """In any column, through the database's own hands."""
    log = tampered()
    connection = sqlite3.connect(log.home.log)
    connection.text_factory = bytes
    old = connection.execute(f"SELECT {column} FROM stored_events WHERE rowid=?", (row,)).fetchone()[0]
    connection.close()
    if isinstance(old, int):
        log.sql(f"UPDATE stored_events SET {column}=? WHERE rowid=?", old ^ (1 << (bit + 8)), row)
    else:
        new = bytearray(old)
        new[int(place * len(new))] ^= 1 << bit
        text = "CAST(? AS TEXT)" if column in ("originator_id", "topic") else "?"
        log.sql(f"UPDATE stored_events SET {column}={text} WHERE rowid=?", bytes(new), row)

    assert row in log.broken()


@quick
@given(row=st.integers(1, COUNT))
def test_a_removed_row_is_found(tampered, row):
    """At the beginning, in the middle and at the end."""
    log = tampered()
    log.sql("DELETE FROM stored_events WHERE rowid=?", row)

    assert row in log.broken()


@quick
@given(pair=st.lists(st.integers(1, COUNT), min_size=2, max_size=2, unique=True))
def test_two_swapped_rows_are_found(tampered, pair):
    """Each with all its columns, digest included."""
    log = tampered()
    first, second = pair
    for old, new in ((first, -1), (second, first), (-1, second)):
        log.sql("UPDATE stored_events SET rowid=? WHERE rowid=?", new, old)

    assert set(pair) <= set(log.broken())


@quick
@given(at=st.integers(1, COUNT))
def test_an_inserted_row_is_found(tampered, at):
    """A copy of a row under another version, put in anywhere, the rest moved on."""
    log = tampered()
    for row in range(COUNT, at - 1, -1):
        log.sql("UPDATE stored_events SET rowid=rowid+1 WHERE rowid=?", row)
    log.sql(
        "INSERT INTO stored_events SELECT ?, originator_id, 99, topic, state, digest"
        " FROM stored_events ORDER BY rowid LIMIT 1",
        at,
    )

    assert at in log.broken()


@pytest.mark.parametrize("kept", [0, 1, COUNT - 1])
def test_a_cut_tail_is_found(tampered, kept):
    """The database knows how many positions it gave; a head written down elsewhere tells it too."""
    log = tampered()
    log.sql("DELETE FROM stored_events WHERE rowid > ?", kept)

    with open_log(log.home) as opened:
        (broken,) = opened.check()
    assert broken.position == kept + 1
    assert broken.why.endswith("missing")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("originator_id", b"\xff"),
        ("originator_version", "one"),
        ("originator_version", -4),
        ("topic", b"RunStarted.1"),
        ("state", "text"),
        ("digest", "text"),
    ],
)
def test_a_value_of_another_kind_is_found(tampered, column, value):
    """SQLite stores any kind of value in any column; the check reports it and goes on."""
    log = tampered()
    log.sql(f"UPDATE stored_events SET {column}=? WHERE rowid=3", value)

    assert 3 in log.broken()
    assert not {1, 2, 5, 6, 7, 8} & set(log.broken())


def test_a_report_names_the_fact(tampered):
    """Position, stream and version of the damaged fact, and why."""
    log = tampered()
    log.sql("UPDATE stored_events SET state=zeroblob(5) WHERE rowid=6")

    with open_log(log.home) as opened:
        (broken,) = opened.check()
    assert (broken.position, broken.stream, broken.version) == (6, OTHER.hex, 2)
    assert "digest" in broken.why


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 0.9999), bit=st.integers(0, 7))
def test_any_changed_bit_of_the_file_is_found_or_harmless(whole, tampered, place, bit):
    """Whatever bit of the database file flips: the check tells, or opening fails, or every fact reads as
    it was."""
    log = tampered()
    content = bytearray(log.home.log.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    log.home.log.write_bytes(content)

    with open_log(whole) as opened:
        expected = opened.read()
    try:
        with open_log(log.home) as opened:
            told = list(opened.check())
            assert told or opened.read() == expected
    except (LogFailure, IntegrityFailure):
        pass
