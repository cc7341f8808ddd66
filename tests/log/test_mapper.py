from __future__ import annotations

import sqlite3

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from migrations.upcasts import UPCASTS
from recorder.errors import IntegrityFailure
from recorder.eventlog.chain import insert_facts
from recorder.eventlog.mapper import decode, encode, topic_of
from recorder.events import FACTS, Fact, RunSettled, RunStarted, Unread
from recorder.log import open_log
from tests.log.samples import STREAM, facts, run

AT = 1_700_000_000_000_000_000
PACKED_ID = STREAM.bytes


@settings(max_examples=300, deadline=None)
@given(fact=facts())
def test_any_fact_comes_back_equal(fact):
    """Every type, with any values in its fields."""
    topic, state = encode(fact)

    assert topic == topic_of(type(fact))
    assert decode(topic, state, stream=fact.originator_id.hex, version=1, upcasts={}) == fact


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fact=facts())
def test_any_fact_comes_back_equal_through_the_log(log, fact):
    """By its stream and by its position, and the chain holds."""
    version = log.version(fact.originator_id) + 1
    fact = msgspec.structs.replace(fact, originator_version=version)
    (position,) = log.append([fact])

    assert [each.fact for each in log.read(after=position - 1)] == [fact]
    assert list(log.stream(fact.originator_id, after=version - 1)) == [fact]
    assert list(log.check()) == []


def test_topics_are_the_class_and_its_schema():
    """Short, distinct, and without a module's name, so that code may move."""
    topics = [topic_of(kind) for kind in FACTS]

    assert topic_of(RunStarted) == "RunStarted.1"
    assert len(set(topics)) == len(FACTS)


def test_a_stored_fact_is_small():
    """An array with the ids as bytes: no field's name is stored."""
    topic, state = encode(run(1))

    assert topic == "RunStarted.1"
    assert msgspec.msgpack.decode(state) == [PACKED_ID, 1, 1, "", "run"]


@pytest.fixture
def store(home):
    """Puts fields under any topic into the home's log, as another version would have."""

    def put(topic: str, fields: object, version: int = 1) -> None:
        with open_log(home):
            pass
        connection = sqlite3.connect(home.log, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        state = msgspec.msgpack.encode(fields)
        insert_facts(connection.cursor(), [(STREAM.hex, version, topic, state)])
        connection.execute("COMMIT")
        connection.close()

    return put


def ended_1(fields: list) -> tuple[str, list]:
    """A made-up older fact, which had the run's fields the other way round."""
    *head, entry, running = fields
    return "RunEnded.2", [*head, running, entry]


def ended_2(fields: list) -> tuple[str, list]:
    """It then got the outcome and its present name."""
    return "RunSettled.1", [*fields, "done"]


def test_an_older_fact_is_brought_up_to_date(home, store):
    """Upcasts are applied one after the other; what is stored stays, and the chain with it."""
    store("RunEnded.1", [PACKED_ID, 1, AT, "", "entry", "run"])
    store("RunEnded.2", [PACKED_ID, 2, AT, "", "run", "entry"], version=2)
    upcasts = {"RunEnded.1": ended_1, "RunEnded.2": ended_2}

    with open_log(home, upcasts=upcasts) as log:
        facts = list(log.stream(STREAM))
        assert [each.fact for each in log.read()] == facts
        assert list(log.check()) == []
    assert facts == [
        RunSettled(
            originator_id=STREAM,
            originator_version=version,
            at=AT,
            time="",
            run="run",
            entry="entry",
            outcome="done",
        )
        for version in (1, 2)
    ]


def test_an_unknown_fact_is_kept_raw(home, store):
    """Its type or its schema may be of a newer version; when it happened is in every one."""
    store("RunStarted.2", [PACKED_ID, 1, AT, {"new": "shape"}])
    store("Teleported.1", [PACKED_ID, 2, AT], version=2)
    store("Strange", {"no": "array"}, version=3)

    with open_log(home) as log:
        stored = [each.fact for each in log.read()]
    assert [(fact.topic, fact.at, fact.originator_version) for fact in stored] == [
        ("RunStarted.2", AT, 1),
        ("Teleported.1", AT, 2),
        ("Strange", 0, 3),
    ]
    assert all(isinstance(fact, Unread) and fact.originator_id == STREAM for fact in stored)
    assert msgspec.msgpack.decode(stored[2].state) == {"no": "array"}


def test_an_upcast_to_a_topic_that_nobody_knows_is_unread(home, store):
    """The stored topic and bytes are shown, not the half-way ones."""
    store("RunEnded.1", [PACKED_ID, 1, AT, "", "entry", "run"])

    with open_log(home, upcasts={"RunEnded.1": ended_1}) as log:
        (fact,) = log.stream(STREAM)
    assert isinstance(fact, Unread)
    assert fact.topic == "RunEnded.1"


def test_a_field_appended_by_a_newer_version_is_passed_over(home, store):
    """Within a schema, a newer version may append fields, and an older one still reads the rest."""
    store("RunStarted.1", [PACKED_ID, 1, AT, "", "run", "a new field"])

    with open_log(home) as log:
        (fact,) = log.stream(STREAM)
    assert fact == RunStarted(originator_id=STREAM, originator_version=1, at=AT, time="", run="run")


def test_a_known_fact_that_is_not_one_is_an_integrity_failure(home, store):
    """It is not taken for an unknown one: what is built on it would be wrong without a word."""
    store("RunStarted.1", [PACKED_ID, 1, AT, "", 7])

    with open_log(home) as log, pytest.raises(IntegrityFailure) as caught:
        log.read()
    assert caught.value.details == {"stream": STREAM.hex, "version": 1}


def test_the_registry_leads_to_what_is_stored_today():
    """No upcast starts from a current topic, and each of this version's facts has one topic only."""
    current = {topic_of(kind) for kind in FACTS}

    assert not current & UPCASTS.keys()
    assert all(issubclass(kind, Fact) and kind is not Unread for kind in FACTS)
