"""Random histories of agents, people and going back, in real folders: what holds after every step of them."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from projections.views import rebuild, views_as_of
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Watcher, Within, rows

State = dict[str, tuple[str, int, bytes]]
STEPS = 10


class History:
    """Two sessions in one folder, each with names of its own, and a person who works between their runs.

    `snapshots` has, by session and prompt number, what stood there when the prompt was given; `made` what
    a person wrote last, and where; `mixed` the names that a person and an agent both changed.
    """

    def __init__(self, seed: int, within: Within, folder: Path, watcher: Watcher) -> None:
        self.random = random.Random(seed)
        self.within, self.folder, self.watcher = within, folder, watcher
        self.agents = {"a": within.agent("pi", folder), "b": within.agent("claude", folder)}
        self.snapshots: dict[str, list[State]] = {"a": [], "b": []}
        self.entries: dict[str, list[str | None]] = {"a": [], "b": []}
        self.made: dict[str, bytes] = {}
        self.mixed: set[str] = set()
        self.counter = 0

    def step(self) -> None:
        weighted = [self.run] * 4 + [self.person] * 2 + [self.rewind] * 4 + [self.stepping] * 2
        self.random.choice([*weighted, self.meddle, self.navigate])()
        self.nothing_of_people_is_lost()

    # ---- what agents do

    def run(self) -> None:
        name = self.random.choice("ab")
        agent = self.agents[name]
        time.sleep(APART)
        acts = [
            self.named if self.random.random() < 0.4 else self.shell for _ in range(self.random.randint(0, 2))
        ]
        self.entries[name].append(agent.leaf)
        agent.give(f"prompt {len(self.snapshots[name]) + 1}")
        self.watcher.look(agent)
        self.snapshots[name].append(snapshot(self.folder))
        for act in acts:
            time.sleep(APART)
            act(name, agent)
            self.watcher.look(agent)
        agent.done()
        self.watcher.look(agent)
        time.sleep(APART)

    def named(self, name: str, agent: Pi | Claude) -> None:
        target = f"{name}{self.random.randint(0, 3)}.txt"
        if not (self.folder / target).is_dir() and not (self.folder / target).is_symlink():
            self.made.pop(target, None)
            agent.write(target, self.text())

    def shell(self, name: str, agent: Pi | Claude) -> None:
        agent.shell("…", lambda: [self.wild(name) for _ in range(self.random.randint(1, 4))])

    def wild(self, name: str) -> None:
        """One change below the agent's own names; what a person made there is the agent's to change too."""
        path = self.folder / f"{name}{self.random.randint(0, 4)}.txt"
        if self.random.random() < 0.3:
            path = self.folder / f"{name}dir" / self.random.choice(["x", "y/z"])
        above = path.parent
        if above != self.folder and (above.is_symlink() or not above.is_dir()):
            if any(one.is_symlink() or one.is_file() for one in (above, above.parent) if one != self.folder):
                return
            above.mkdir(parents=True)
        kind = self.random.choice(["write", "write", "delete", "mode", "link", "folder", "rename"])
        self.made.pop(str(path.relative_to(self.folder)), None)
        if kind == "mode" and path.is_file() and not path.is_symlink():
            path.chmod(self.random.choice([0o600, 0o644, 0o755]))
            return
        if kind == "rename" and path.exists():
            to = self.folder / f"{name}{self.random.randint(5, 7)}.txt"
            if not to.exists() and not to.is_symlink() and not self.people_in(path):
                path.rename(to)
            return
        if self.people_in(path):
            return
        remove(path)
        if kind == "write":
            path.write_text(self.text())
        elif kind == "link":
            path.symlink_to(self.random.choice(["nowhere", "notes.md"]))
        elif kind == "folder":
            path.mkdir()
            (path / "in").write_text(self.text())

    def people_in(self, path: Path) -> bool:
        relative = str(path.relative_to(self.folder))
        return any(one == relative or one.startswith(f"{relative}/") for one in self.made)

    def navigate(self) -> None:
        """The conversation alone goes back to a place before some prompt."""
        name = self.random.choice("ab")
        if self.entries[name]:
            self.agents[name].navigate(self.random.choice(self.entries[name]))

    # ---- what a person does

    def person(self) -> None:
        """A file of the person's own, at times in a folder that an agent made."""
        time.sleep(APART)
        target = self.random.choice(["p1", "p2", "src/p3", "adir/p4", "bdir/p5"])
        if not (self.folder / target).parent.is_dir() or (self.folder / target).parent.is_symlink():
            return
        self.write(target)
        time.sleep(APART)

    def meddle(self) -> None:
        """The person changes a file that is an agent's."""
        time.sleep(APART)
        target = f"{self.random.choice('ab')}{self.random.randint(0, 4)}.txt"
        path = self.folder / target
        if not path.is_symlink() and path.is_file():
            self.write(target)
            self.mixed.add(target)
        time.sleep(APART)

    def write(self, target: str) -> None:
        content = self.text().encode()
        (self.folder / target).write_bytes(content)
        self.made[target] = content

    # ---- going back

    def rewind(self) -> None:
        """To any prompt of any session; taken back at once, half of the time, and done again."""
        name = self.random.choice([one for one in "ab" if self.snapshots[one]] or ["a"])
        if not self.snapshots[name]:
            return
        number = self.random.randint(1, len(self.snapshots[name]))
        before = snapshot(self.folder)
        done = self.command("rewind", str(number), "--session", self.agents[name].session)
        self.stands_as(name, done, before)
        after = snapshot(self.folder)
        if done["status"] == "done" and self.random.random() < 0.5:
            self.command("rewind", "--undo")
            assert snapshot(self.folder) == before
            if self.random.random() < 0.5:
                self.command("rewind", "--redo")
                assert snapshot(self.folder) == after

    def stepping(self) -> None:
        name = self.random.choice("ab")
        before = snapshot(self.folder)
        word = self.random.choice(["undo", "undo", "redo"])
        done = self.command(word, "--session", self.agents[name].session)
        if "error" not in done:
            self.stands_as(name, done, before)

    def command(self, *words: str) -> dict[str, Any]:
        time.sleep(APART)
        answer = self.within.run(*words, "--files", "--json", cwd=self.folder, check=None)
        assert answer.code in (0, 3, 4, 6), (words, answer)
        return dict(answer.json)

    def stands_as(self, name: str, done: dict[str, Any], before: State) -> None:
        """The session's own names are as they were then, those of all others as they were a moment ago."""
        now = snapshot(self.folder)
        if done["status"] in ("refused", "noop"):
            assert now == before, done
        if done["status"] == "refused":
            assert self.mixed, done
            return
        others = {path: one for path, one in now.items() if not path.startswith(name)}
        assert others == {path: one for path, one in before.items() if not path.startswith(name)}, done
        if done["checkpoint"] is not None:
            then = self.snapshots[name][done["checkpoint"]["number"] - 1]
            assert self.own(name, now) == self.own(name, then), done

    def own(self, name: str, state: State) -> State:
        """What is the session's alone: not what a person changed too, nor a folder that a person works in."""
        shared = self.mixed | {"adir/p4", "bdir/p5", "adir", "bdir"}
        return {path: one for path, one in state.items() if path.startswith(name) and path not in shared}

    def nothing_of_people_is_lost(self) -> None:
        for target, content in self.made.items():
            assert (self.folder / target).read_bytes() == content, target

    def text(self) -> str:
        self.counter += 1
        return f"{self.counter} {self.random.random()}\n"


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()


@pytest.mark.parametrize("seed", range(8))
def test_random_history(seed: int, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rewind gives what stood at the prompt, and its undo what stood before it; nothing that a person
    made is touched; the views fold to the same rows, all at once and as of any position."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    within = Within(tmp_path / "recorder", monkeypatch)
    with within.watching() as watcher:
        history = History(seed, within, folder, watcher)
        history.run()
        for _ in range(STEPS):
            history.step()
    folds_alike(within, history.random)


def folds_alike(within: Within, chance: random.Random) -> None:
    with within.recording() as recording:
        assert list(recording.log.check()) == []
        recording.views.catch_up()
        live = rows(recording.views)
        rebuild(recording.views)
        recording.views.catch_up()
        assert rows(recording.views) == live
        end = recording.views.position
        with views_as_of(recording.log, 0) as stepwise:
            for position in sorted(chance.sample(range(1, end), 3)):
                stepwise.catch_up(upto=position)
                with views_as_of(recording.log, position) as at_once:
                    assert rows(at_once) == rows(stepwise)
            stepwise.catch_up()
            assert rows(stepwise) == live
