from __future__ import annotations

import pytest

from recorder.errors import Conflict
from recorder.log import Reached
from tests.log.samples import STREAM, run


def reached(offset: int, generation: str = "g1", path: bytes = b"/logs/a.jsonl") -> Reached:
    return Reached(generation, offset, path, b"tail of %d\n" % offset)


def test_the_position_moves_with_the_facts(log):
    """Facts and the position that they were read up to are there together."""
    log.append([run(1)], reached=reached(100))
    log.append([run(2)], reached=reached(250))

    assert log.version(STREAM) == 2
    assert log.reached("g1") == reached(250)
    assert log.reached("g2") is None


def test_a_position_moves_without_facts(log):
    """Bytes that hold nothing new are passed all the same."""
    assert log.append([], reached=reached(100)) == []
    assert log.reached("g1") == reached(100)


@pytest.mark.parametrize("offset", [40, 100])
def test_a_region_read_again_is_told_apart(log, offset):
    """Who re-reads bytes that are recorded learns that it is the position, whatever the versions are."""
    log.append([run(1)], reached=reached(100))

    for facts in ([run(2)], [run(1)], []):
        with pytest.raises(Conflict) as caught:
            log.append(facts, reached=reached(offset))
        assert caught.value.code == "position"
        assert caught.value.message == f"byte {offset} of /logs/a.jsonl is recorded already"

    assert log.version(STREAM) == 1
    assert log.reached("g1") == reached(100)


def test_a_conflict_on_the_stream_leaves_the_position(log):
    """The bytes behind the position are read again after the stream was loaded again."""
    log.append([run(1)], reached=reached(100))

    with pytest.raises(Conflict) as caught:
        log.append([run(1)], reached=reached(200))

    assert caught.value.code == "conflict"
    assert log.reached("g1") == reached(100)


def test_a_rewritten_file_is_a_new_generation(log):
    """Its offsets start again; the newest generations come first."""
    log.append([run(1)], reached=reached(100))
    log.append([run(2)], reached=reached(30, "g2"))
    log.append([], reached=reached(120, "g1"))
    log.append([], reached=reached(7, "g3", b"/logs/b.jsonl"))

    assert log.all_reached() == [reached(7, "g3", b"/logs/b.jsonl"), reached(30, "g2"), reached(120, "g1")]


def test_a_renamed_file_keeps_its_generation(log):
    """It is known at its new path, and no longer at the old one."""
    log.append([run(1)], reached=reached(100))
    log.append([run(2)], reached=reached(200, path=b"/logs/moved \xff.jsonl"))

    assert log.all_reached() == [reached(200, path=b"/logs/moved \xff.jsonl")]
