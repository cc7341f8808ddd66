"""Going back in a storm: each rewind, revert and undo is held against what the model expects of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.flow.conftest import snapshot
from tests.storms.contents import Standing
from tests.storms.model import Expected

if TYPE_CHECKING:
    from tests.storms.storm import Storm


def rewind(storm: Storm) -> None:
    _back(storm, "rewind", storm.model.rewound)


def revert(storm: Storm) -> None:
    _back(storm, "revert", storm.model.reverted)


def _back(storm: Storm, verb: str, expect: Callable[..., Expected]) -> None:
    session = storm.chance.choice(storm.busy)
    if not storm.model.prompts[session]:
        return
    number = storm.chance.randint(1, len(storm.model.prompts[session]))
    storm.apart(verb)
    here = snapshot(storm.root)
    if (session, number) in storm.retired:
        _refuses(storm, verb, str(number), "--session", storm.agents[session].session)
        return
    expected = expect(session, number, here)
    done = command(storm, verb, str(number), "--session", storm.agents[session].session)
    _hold(storm, expected, here, done)
    if done["status"] == "refused" and storm.chance.random() < 0.5:
        words = (verb, str(number), "--session", storm.agents[session].session, "--on-conflict", "skip")
        expected = expect(session, number, here, texts=False)
        done = command(storm, *words)
        _hold(storm, expected, here, done)
    if done["status"] in ("done", "partial") and done["operation"]:
        _remember(storm, expected, here, done)
        _undo_at_once(storm)


def whole_tree(storm: Storm) -> None:
    """The whole tree as it was captured, and back again."""
    session = storm.chance.choice(storm.busy)
    if not storm.model.prompts[session]:
        return
    number = storm.chance.randint(1, len(storm.model.prompts[session]))
    if (session, number) in storm.retired:
        return
    storm.apart("tree")
    here = snapshot(storm.root)
    session_id = storm.agents[session].session
    done = command(storm, "rewind", str(number), "--session", session_id, "--scope", "tree")
    assert done["status"] in ("done", "noop"), done
    assert snapshot(storm.root) == storm.model.prompts[session][number - 1].standing, done
    storm.counts["trees"] += 1
    if done["status"] == "done":
        storm.model.captured()
        done = command(storm, "rewind", "--undo")
        assert done["status"] == "done" and snapshot(storm.root) == here, done
        storm.operation = None


def undo(storm: Storm) -> None:
    """The newest rewind, whatever happened since."""
    if storm.operation is None:
        return
    before, after, since, back = storm.operation
    storm.apart("undo")
    here = snapshot(storm.root)
    expected = storm.model.undone(before, after, here, since)
    done = command(storm, "rewind", "--undo")
    _hold(storm, expected, here, done)
    if done["status"] in ("done", "noop", "partial"):
        back()
        storm.model.captured()
        storm.model.muddled |= expected.vague
        storm.operation = None


def _remember(storm: Storm, expected: Expected, here: Standing, done: dict[str, Any]) -> None:
    now = snapshot(storm.root)
    storm.model.captured()
    conflicts = {one["path"] for one in done["files"]["conflict"]}

    def left(path: str) -> bool:
        return path in conflicts | expected.conflicts | expected.stay | expected.idle

    back = storm.model.moved(expected, left)
    storm.model.muddled |= {path for path in expected.vague if here.get(path) != now.get(path)}
    storm.model.muddled |= expected.vague & {c.path for c in (*expected.taken_back, *expected.put_on)}
    storm.operation = (here, now, storm.model.cells, back)


def _undo_at_once(storm: Storm) -> None:
    assert storm.operation is not None
    before, after, _, back = storm.operation
    if storm.chance.random() < 0.5:
        done = command(storm, "rewind", "--undo")
        assert done["status"] == "done" and snapshot(storm.root) == before, done
        storm.counts["undone"] += 1
        if storm.chance.random() < 0.5:
            done = command(storm, "rewind", "--redo")
            assert done["status"] == "done" and snapshot(storm.root) == after, done
            storm.counts["redone"] += 1
        else:
            back()
            storm.operation = None


def _refuses(storm: Storm, *words: str) -> None:
    """A checkpoint that was let go is none to go back to, and says so."""
    here = snapshot(storm.root)
    done = command(storm, *words)
    assert done["error"]["code"] == "retired" and snapshot(storm.root) == here, done
    storm.counts["retired"] += 1


def command(storm: Storm, *words: str) -> dict[str, Any]:
    files = () if words[0] == "revert" else ("--files",)
    answer = storm.within.run(*words, *files, "--while-running", "--json", cwd=storm.root, check=None)
    storm.tell(f"{' '.join(words)}: {answer.code} {answer.out.decode()[:600]}")
    assert answer.code in (0, 4, 6), answer
    storm.captures = storm.count_captures()
    return dict(answer.json)


def _hold(storm: Storm, expected: Expected, here: Standing, done: dict[str, Any]) -> None:
    """What stands now against what must."""
    now, told = snapshot(storm.root), {one["path"] for one in done["files"]["conflict"]}
    doubted = expected.conflicts | expected.vague
    sure = expected.conflicts - expected.vague
    storm.counts[done["status"]] += 1
    if done["status"] == "refused":
        assert now == here, done
        assert told and all(_named(path, doubted) for path in told), (told, doubted)
        return
    assert done["status"] in ("done", "noop", "partial"), done
    skipped = done["status"] == "partial"
    assert skipped or not sure, (sure, done)
    assert all(_named(path, doubted) for path in told), (told, doubted)
    for path in sorted(expected.standing.keys() | now.keys()):
        if not expected.covers(path) or _named(path, doubted):
            storm.counts["vague"] += 1
            continue
        must, stands = expected.standing.get(path), now.get(path)
        if path in expected.roughly and must and stands:
            must, stands = (must[0], 0, b""), (stands[0], 0, b"")
        assert stands == must, (path, stands, must, here.get(path), done)
        storm.counts["merged" if path in done["files"]["merge"] else "sure"] += 1


def _named(path: str, doubted: set[str]) -> bool:
    """Whether a path is doubted, or lies above or below one that is."""
    return any(path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in doubted)
