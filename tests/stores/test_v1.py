from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from migrations.upcasts import UPCASTS
from recorder import events
from recorder.errors import RecorderError
from recorder.home import Home, find_home
from recorder.log import EventLog, open_log

STORE = Path(__file__).with_name("v1")

EXPLANATION = """
A fact of the frozen store no longer reads as it was written:

    {what}

A stored struct changed in a way that old stores do not survive. Append fields at its end, with a
default, and nothing else; for any other change raise its `schema` and add an upcast to
`migrations/upcasts.py`. (Before version 1 is released, `python -m tests.stores.write_v1` freezes anew.)
"""


try:
    from tests.stores import facts_v1
except TypeError as error:
    pytest.fail(EXPLANATION.format(what=error), pytrace=False)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A copy, as a person's home would be: opening it writes beside the database."""
    shutil.copytree(STORE, tmp_path / "home")
    found = find_home(tmp_path / "home")
    assert found is not None
    return found


@pytest.fixture
def log(home: Home):
    with open_log(home, upcasts=UPCASTS) as log:
        yield log


def facts_in(log: EventLog) -> list[events.Fact]:
    try:
        return [each.fact for each in log.read()]
    except RecorderError as error:
        return pytest.fail(EXPLANATION.format(what=error.message))


def test_a_store_of_version_1_is_whole(log):
    """Its chain verifies, up to the head that was written down when it was frozen."""
    position, digest = (STORE / "head").read_text().split()

    assert list(log.check()) == []
    assert (log.head().position, log.head().digest) == (int(position), digest)


def test_every_fact_of_version_1_reads_as_it_was_written(log):
    """Each struct, field by field."""
    facts = facts_in(log)

    assert len(facts) == len(facts_v1.FACTS)
    for position, (fact, expected) in enumerate(zip(facts, facts_v1.FACTS, strict=True), 1):
        if fact != expected:
            names = [name for name in expected.__struct_fields__ if _of(fact, name) != _of(expected, name)]
            what = (
                f"position {position}, {type(expected).__name__}: {', '.join(names) or type(fact).__name__}"
            )
            pytest.fail(EXPLANATION.format(what=what))


def _of(fact: msgspec.Struct, name: str) -> object:
    return getattr(fact, name, None)


def test_every_type_of_fact_is_in_the_store():
    """A new type of fact gets its frozen example in the store of the version that brings it."""
    assert {type(fact) for fact in facts_v1.FACTS} == set(events.FACTS)


def test_bodies_and_positions_of_version_1_are_found(log):
    """With the secret of that home."""
    for body, content in facts_v1.BODIES:
        assert log.body_of(content) == body
        assert log.body(body.digest) == content
    assert log.all_reached() == [*reversed(facts_v1.REACHED)]


def test_a_store_of_version_1_goes_on(log):
    """New facts are appended to its streams and its chain."""
    fact = events.SessionEnded(
        originator_id=facts_v1.SESSION,
        originator_version=log.version(facts_v1.SESSION) + 1,
        at=0,
        time="",
        reason="quit again",
    )

    assert log.append([fact]) == [len(facts_v1.FACTS) + 1]
    assert list(log.check()) == []
