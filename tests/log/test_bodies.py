from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.errors import IntegrityFailure, NotFound
from recorder.eventlog.bodies import PART
from recorder.events import Body
from recorder.home import open_home
from recorder.log import open_log
from tests.log.samples import run

ROOT = Path(__file__).parents[2]
LARGE = 40 << 20


def keep(log, content: bytes) -> Body:
    body = log.body_of(content)
    log.append([], bodies=[(body, content)])
    return body


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300) | st.text().map(lambda text: text.encode() * 50))
def test_a_body_comes_back_byte_for_byte(log, content):
    """Whatever it holds, compressible or not, and however often it is stored."""
    body = keep(log, content)
    keep(log, content)

    assert body.size == len(content)
    assert log.body(body.digest) == content


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 17])
@pytest.mark.parametrize("fill", [os.urandom, bytes], ids=["random", "zeros"])
def test_a_body_in_parts_comes_back(log, size, fill):
    """The edges between parts lose and double nothing."""
    content = fill(size)

    assert log.body(keep(log, content).digest) == content


def test_a_body_is_stored_once(log, sql):
    """The same content in one append, in a later one, and from another opening of the log."""
    body = log.body_of(b"said twice")
    log.append([run(1)], bodies=[(body, b"said twice"), (body, b"said twice")])
    log.append([run(2)], bodies=[(body, b"said twice")])

    assert sql("SELECT count(*) FROM bodies") == [(1,)]


def test_what_compresses_is_stored_compressed_and_the_rest_as_it_is(log, sql):
    """A log's text takes a fraction of its size, and random bytes not one more than they have."""
    keep(log, b"the same line again\n" * 1_000)
    keep(log, os.urandom(5_000))

    (packed, text_size), (raw, random_size) = sql("SELECT packed, length(content) FROM bodies")
    assert (packed, raw) == (1, 0)
    assert text_size < 1_000
    assert random_size == 5_000


def test_digests_are_keyed_by_the_home(tmp_path, log):
    """The same words have another digest in another home, so a digest does not tell what was said."""
    with open_log(open_home(tmp_path / "another")) as another:
        assert log.body_of(b"yes") != another.body_of(b"yes")
        assert log.body_of(b"yes") == log.body_of(b"yes")


def test_a_body_that_is_not_there_is_not_found(log, sql):
    """Never stored and forgotten are the same answer, and the chain does not mind."""
    body = log.body_of(b"a secret")
    with pytest.raises(NotFound):
        log.body(body.digest)

    log.append([run(1)], bodies=[(body, b"a secret")])
    sql("DELETE FROM bodies")

    with pytest.raises(NotFound):
        log.body(body.digest)
    assert list(log.check()) == []


@pytest.mark.parametrize("word", ["", "zz", "ab", "ä"])
def test_what_is_no_digest_is_not_found(log, word):
    """A digest that a person typed wrong is answered like one that is not there."""
    with pytest.raises(NotFound):
        log.body(word)


@pytest.mark.parametrize("content", [b"compressible " * 100, os.urandom(1_000)], ids=["packed", "raw"])
@pytest.mark.parametrize("change", ["content=zeroblob(length(content))", "packed=1-packed"])
def test_a_changed_body_is_an_integrity_failure(log, sql, content, change):
    """Damaged bytes are neither given out nor taken for missing."""
    body = keep(log, content)
    sql(f"UPDATE bodies SET {change}")

    with pytest.raises(IntegrityFailure, match=body.digest):
        log.body(body.digest)


def test_a_lost_part_is_an_integrity_failure(log, sql):
    """A body that lacks its middle is not given out."""
    body = keep(log, os.urandom(3 * PART))
    sql("DELETE FROM bodies WHERE part=1")

    with pytest.raises(IntegrityFailure):
        log.body(body.digest)


MEASURE = f"""
import os, sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from recorder.home import open_home
from recorder.log import open_log

def peak():
    return getrusage(RUSAGE_SELF).ru_maxrss << 10

with open_log(open_home(Path(sys.argv[1]))) as log:
    small = log.body_of(b"warm")
    log.append([], bodies=[(small, b"warm")])
    log.body(small.digest)
    content = os.urandom({LARGE})
    before = peak()
    body = log.body_of(content)
    log.append([], bodies=[(body, content)])
    written = peak()
    del content
    assert len(log.body(body.digest)) == {LARGE}
    print(written - before, peak() - written)
"""


def test_a_large_body_takes_little_more_memory_than_itself(tmp_path):
    """Writing one of 40 MiB takes at most 12 MiB beside it, and so does reading it."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path / "home"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    writing, reading = map(int, done.stdout.split())

    assert writing < 12 << 20
    assert reading < 12 << 20
