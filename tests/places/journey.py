"""One recorded session in a place, taken back and forth by the command line, with the user's repositories
compared before and after each command."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.capture.helpers import everything
from tests.flow.agents import Claude, Pi
from tests.flow.within import APART, Within

Listing = dict[bytes, tuple[object, ...]]


class Place(NamedTuple):
    """A work tree to record in. `cwd` is the session's folder where it is not the root; `base` holds all
    that belongs to the place, `guarded` names git folders in it that are not called `.git`."""

    base: Path
    root: Path
    cwd: Path | None = None
    guarded: tuple[Path, ...] = ()

    @property
    def folder(self) -> Path:
        return self.cwd or self.root


def gits(place: Place) -> Listing:
    """Everything in and about the place's git folders: bytes, modes, inodes, times."""
    also = [os.fsencode(path) for path in place.guarded]
    return {
        path: seen
        for path, seen in everything(place.base).items()
        if b".git" in path.split(b"/") or any(path == one or path.startswith(one + b"/") for one in also)
    }


def files(place: Place) -> Listing:
    """Kinds, permissions and bytes of all in the work tree; links by where they lead. Not git's folders, nor
    one that holds nothing but such a folder."""
    return {
        path: (seen[0], os.readlink(path) if os.path.islink(path) else seen[-1])
        for path, seen in everything(place.root).items()
        if b".git" not in path.split(b"/")
        and path != os.fsencode(place.root)
        and not (os.path.isdir(path) and os.listdir(path) == [b".git"])
    }


def state(place: Place) -> Listing:
    return files(place) | gits(place)


def furnish(root: Path) -> None:
    """The files that every place begins with."""
    for name, content in {
        "changed.txt": "one\n", "gone.txt": "going\n", "moved.txt": "moving\n", "run.sh": "#!/bin/sh\n",
        "kept/file": "kept\n", "swap": "a file\n",
    }.items():  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "run.sh").chmod(0o755)


def rampage(root: Path) -> None:
    """What the simulated agent does in the shell."""
    (root / "changed.txt").write_text("two\n")
    (root / "gone.txt").unlink()
    (root / "moved.txt").rename(root / "kept" / "here.txt")
    (root / "run.sh").chmod(0o700)
    (root / "swap").unlink()
    (root / "swap").mkdir()
    (root / "swap" / "below").write_text("a folder now\n")
    (root / "made" / "deep").mkdir(parents=True)
    (root / "made" / "deep" / "file").write_bytes(b"\0\xff\r\n")
    (root / "made" / "link").symlink_to("../kept")


def there_and_back(
    within: Within,
    place: Place,
    act: Callable[[Path], object] = rampage,
    *,
    kind: str = "pi",
    back: tuple[str, ...] = ("rewind", "1"),
) -> Any:
    """A session that writes by name and by shell; its rewind and the undo of it give both states back.

    Returns the rewind's document. The repositories are as the agent left them all the while.
    """
    agent = within.agent(kind, place.folder)
    start = files(place)
    record(within, place, agent, lambda one: one.shell("…", lambda: act(place.root)))
    end, guarded = files(place), gits(place)
    assert start != end
    session = ("--session", agent.session)
    for words in looking(agent.session, place.root):
        within.run(*words, cwd=place.folder)
        same(end | guarded, state(place), words)
    planned = within.json(*back, *session, "--dry-run", cwd=place.folder)
    assert planned["status"] == "planned", planned
    same(end | guarded, state(place), planned)
    done = within.json(*back, *session, cwd=place.folder)
    assert done["status"] == "done", done
    same(start | guarded, state(place), done)
    within.json("rewind", "--undo", cwd=place.folder)
    same(end | guarded, state(place))
    return done


def record(within: Within, place: Place, agent: Pi | Claude, *acts: Callable[[Pi | Claude], object]) -> None:
    """One prompt whose run writes by name and then acts. No capture changes anything below the place."""
    guarded = everything(place.base)
    entry = agent.give("go wild")
    with within.watching() as watcher:
        watcher.look(agent)
        same(guarded, everything(place.base))
        for act in (lambda one: one.write("named.txt", "by name\n"), *acts):
            time.sleep(APART)
            act(agent)
            guarded = everything(place.base)
            watcher.look(agent)
        agent.done()
        watcher.look(agent)
    same(guarded, everything(place.base))
    [one] = within.json("checkpoints", agent.session, cwd=place.folder)
    assert one["entry_id"] == entry and one["state"] == "complete", one


def looking(session: str, root: Path) -> Iterator[tuple[str, ...]]:
    """Commands that only look, each in another way: at the views, at the disk and at the store."""
    named = ("--session", session)
    yield ("show", "1", *named)
    yield ("diff", "1", *named)
    yield ("cat", "1", str(root / "changed.txt"), *named)


def same(wanted: Listing, found: Listing, after: object = None) -> None:
    """Fails with the paths that are not alike, both sides of each, and what it came `after`."""
    paths = wanted.keys() | found.keys()
    unlike = {
        path: (wanted.get(path), found.get(path)) for path in paths if wanted.get(path) != found.get(path)
    }
    assert unlike == {}, f"{unlike} after {after}"
