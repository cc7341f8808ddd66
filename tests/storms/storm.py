"""One storm: two agents, a person and git at work in one project at once, and rewinds in between, each held
against what the model says must come back."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorder.events import Captured
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Watcher, Within, whole
from tests.storms.contents import Standing
from tests.storms.hands import Hands
from tests.storms.model import Expected, Model, Run, above

Agent = Pi | Claude
_TICK = 10_000_000
"""ns by which the kernel's file times may lag."""


class Storm:
    """`told` is what happened, for whoever has to find out why it failed; `counts` what was checked."""

    def __init__(self, seed: int, within: Within, root: Path) -> None:
        self.chance = random.Random(seed)
        self.within, self.root = within, root
        self.hands, self.model = Hands(self.chance, root), Model()
        self.hands.furnish()
        kinds = self.chance.choice([("pi", "claude"), ("claude", "pi"), ("pi", "pi"), ("claude", "claude")])
        self.agents = {"a": within.agent(kinds[0], root), "b": within.agent(kinds[1], root)}
        self.runs: dict[str, Run | None] = {"a": None, "b": None}
        self.entries: list[tuple[str, str | None]] = []
        self.busy = self.chance.choice(["ab", "ab", "a", "aab"])
        """The sessions that act, by how often."""
        self.steps = self.chance.random() < 0.5
        self.last_hand = ""
        self.captures = 0
        self.operation: tuple[Standing, Standing, int, Callable[[], None]] | None = None
        self.retired: set[tuple[str, int]] = set()
        self.told: list[str] = []
        self.counts: Counter[str] = Counter()
        self._steered: dict[Run, list[Run]] = {}
        self._dead: dict[str, Run] = {}
        self._stack = contextlib.ExitStack()

    def blow(self, steps: int) -> None:
        try:
            with self._stack:
                self.restart()
                self.prompt("a")
                for _ in range(steps):
                    self.step()
        except BaseException as error:
            error.add_note("\n".join(["", "the storm:", *self.told]))
            raise

    def step(self) -> None:
        session = self.chance.choice(self.busy)
        if self.runs[session] is None:
            agents = [self.prompt] * 4
        else:
            agents = [self.shell, self.shell, self.tool, self.tool, self.done, self.done, self.steer]
            agents += self.chance.choice([[], [], [self.kill], [self.abort]])
        others = [self.person, self.person, self.person, self.use_git]
        backs = [self.rewind, self.rewind, self.rewind, self.whole_tree, self.revert, self.undo]
        rare = [self.navigate, self.prune, self.restart, self.crossed_calls, self.hang]
        kind = self.chance.choices(["agents", "others", "backs", "rare"], [10, 4, 4, 1])[0]
        if kind == "agents":
            self.chance.choice(agents)(session)
        else:
            self.chance.choice({"others": others, "backs": backs, "rare": rare}[kind])()

    # ---- what agents do

    def prompt(self, session: str, *, during: bool = False) -> None:
        agent = self.agents[session]
        self.apart(session)
        self.tell(f"{session}: prompt {len(self.model.prompts[session]) + 1}")
        self.entries.append((session, agent.leaf))
        agent.give(f"prompt {len(self.model.prompts[session]) + 1}")
        self.look(session, beside=self.chance.random() < 0.15)
        self.runs[session] = self.model.prompted(session, snapshot(self.root))
        self.captures = self._captures()
        if (dead := self._dead.pop(session, None)) is not None:
            self._end(dead, self.model.now)

    def steer(self, session: str) -> None:
        """Another prompt while the run goes on: its run is another one."""
        run = self.runs[session]
        assert run is not None
        self.prompt(session)
        new = self.runs[session]
        assert new is not None
        self._steered[new] = [run]

    def shell(self, session: str) -> None:
        self.apart(session)
        self.model.cell.calls.add(session)
        agent, run = self.agents[session], self.runs[session]
        agent.shell("…", lambda: self._write(session, run, self.hands.work))
        self.look(session)

    def tool(self, session: str) -> None:
        target = self.hands.target()
        if target is None or not _readable(target):
            return
        self.apart(session)
        agent, run = self.agents[session], self.runs[session]
        name, act = str(target.relative_to(self.root)), self._tool(session, target)
        changed = self._write(session, run, lambda: act(agent, name))
        # A call names one name of a file that has several: that the others changed with it nobody tells.
        self.model.muddled |= changed - {name, *above(name)}
        self.look(session)

    def _tool(self, session: str, target: Path) -> Callable[[Agent, str], None]:
        """A tool writes the file, as it was with one slot edited, or anew; at times a formatter is at it in
        the very same moment."""
        content = target.read_bytes() if target.exists() else None

        def write(agent: Agent, name: str) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is not None and b"\0" not in content and b"\r" not in content:
                self.hands.edit(target)
                words = target.read_bytes().decode()
                target.write_bytes(content)
            else:
                words = f"{self.hands.word()}\n"
            agent.write(name, words)

        return write

    def done(self, session: str) -> None:
        run = self.runs[session]
        assert run is not None
        self.tell(f"{session}: done")
        self.agents[session].done()
        run.ended = self.model.tick()
        self._end(run, run.ended)
        self.look(session)
        self.runs[session] = None

    def abort(self, session: str) -> None:
        """The person breaks the run off; the agent lives."""
        run, agent = self.runs[session], self.agents[session]
        assert run is not None
        self.tell(f"{session}: aborted")
        if isinstance(agent, Pi):
            agent._message({"role": "assistant", "content": [], "stopReason": "aborted"})
        else:
            said = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}
            agent._write(agent._chained("user", message=said))
        run.ended = self.model.tick()
        self.look(session)
        self._dead[session] = run
        self.runs[session] = None

    def kill(self, session: str) -> None:
        """The agent dies between two tools: its run has no end."""
        run = self.runs[session]
        assert run is not None
        self.tell(f"{session}: killed")
        self._dead[session] = run
        self.runs[session] = None

    def hang(self) -> None:
        """The agent dies while a shell runs: the call never returns, and what it did may be anybody's."""
        session = self.chance.choice("ab")
        agent, run = self.agents[session], self.runs[session]
        if run is None or not isinstance(agent, Pi):
            return
        self.apart(session)
        self.tell(f"{session}: hangs")
        self.model.hanging.add(session)
        self.model.cell.calls.add(session)
        agent.call("bash", {"command": "sleep 1000"})
        self._write(session, run, self.hands.work)
        self.look(session)
        self.kill(session)

    def crossed_calls(self) -> None:
        """Both shells run at the same time: what they do may be either's."""
        if None in self.runs.values() or not all(isinstance(one, Pi) for one in self.agents.values()):
            return
        a, b = self.agents["a"], self.agents["b"]
        assert isinstance(a, Pi) and isinstance(b, Pi)
        self.apart("a")
        self.tell("both call a shell")
        calls = {"a": a.call("bash", {"command": "…"}), "b": b.call("bash", {"command": "…"})}
        self.model.cell.calls |= {"a", "b"}
        for session in "ab":
            before = snapshot(self.root)
            self.hands.work()
            after = snapshot(self.root)
            self._tell_writes(session, before, after)
            for hand in "ab":
                self.model.wrote(hand, self.runs[hand], before, after)
                self.model.wrote(hand, self.runs[hand], after, after)
            self.model.muddled |= {
                one for one in before.keys() | after.keys() if before.get(one) != after.get(one)
            }
        for session, agent in (("a", a), ("b", b)):
            agent.returned(calls[session], "bash")
            self.look(session)
        self.last_hand = "both"

    def navigate(self) -> None:
        """The conversation alone goes back to a place before some prompt."""
        session, entry = self.chance.choice(self.entries)
        if self.runs[session] is None:
            self.tell(f"{session}: navigates")
            self.agents[session].navigate(entry)

    def _end(self, run: Run, now: int) -> None:
        run.closed = now
        for other in self._steered.pop(run, []):
            self._end(other, now)

    # ---- what others do

    def person(self) -> None:
        self.apart("person")
        self._write("person", None, self.hands.save)

    def use_git(self) -> None:
        self.apart("git")
        self._write("git", None, self.hands.use_git)

    def prune(self) -> None:
        """At times so that old checkpoints are let go: what is kept must stay whole."""
        kept = self.chance.choice([100, 100, 4])
        os.environ["RECORDER_MAX_CHECKPOINTS"] = str(kept)
        try:
            pruned = self.within.json("prune", cwd=self.root)
        finally:
            del os.environ["RECORDER_MAX_CHECKPOINTS"]
        names = {agent.session: session for session, agent in self.agents.items()}
        gone = {(names[one["session"]], one["number"]) for one in pruned["retired"]}
        self.tell(f"prune: {sorted(gone)}")
        self.retired |= gone

    def restart(self) -> None:
        """Another recorder watches from here on."""
        self._stack.close()
        self.tell("a new recorder")
        self.watcher: Watcher = self._stack.enter_context(self.within.watching())
        self.watcher.steps = self.steps
        for session, agent in self.agents.items():
            if agent.log.exists():
                self.look(session)

    # ---- going back

    def rewind(self) -> None:
        self._back("rewind", self.model.rewound)

    def revert(self) -> None:
        self._back("revert", self.model.reverted)

    def _back(self, verb: str, expect: Callable[..., Expected]) -> None:
        session = self.chance.choice(self.busy)
        if not self.model.prompts[session]:
            return
        number = self.chance.randint(1, len(self.model.prompts[session]))
        self.apart(verb)
        here = snapshot(self.root)
        if (session, number) in self.retired:
            self._refuses(verb, str(number), "--session", self.agents[session].session)
            return
        expected = expect(session, number, here)
        done = self.command(verb, str(number), "--session", self.agents[session].session)
        self._hold(expected, here, done)
        if done["status"] == "refused" and self.chance.random() < 0.5:
            words = (verb, str(number), "--session", self.agents[session].session, "--on-conflict", "skip")
            expected = expect(session, number, here, texts=False)
            done = self.command(*words)
            self._hold(expected, here, done)
        if done["status"] in ("done", "partial") and done["operation"]:
            self._remember(expected, here, done)
            self._undo_at_once()

    def whole_tree(self) -> None:
        """The whole tree as it was captured, and back again."""
        session = self.chance.choice(self.busy)
        if not self.model.prompts[session]:
            return
        number = self.chance.randint(1, len(self.model.prompts[session]))
        if (session, number) in self.retired:
            return
        self.apart("tree")
        here = snapshot(self.root)
        session_id = self.agents[session].session
        done = self.command("rewind", str(number), "--session", session_id, "--scope", "tree")
        assert done["status"] in ("done", "noop"), done
        assert snapshot(self.root) == self.model.prompts[session][number - 1].standing, done
        self.counts["trees"] += 1
        if done["status"] == "done":
            self.model.captured()
            done = self.command("rewind", "--undo")
            assert done["status"] == "done" and snapshot(self.root) == here, done
            self.operation = None

    def undo(self) -> None:
        """The newest rewind, whatever happened since."""
        if self.operation is None:
            return
        before, after, since, back = self.operation
        self.apart("undo")
        here = snapshot(self.root)
        expected = self.model.undone(before, after, here, since)
        done = self.command("rewind", "--undo")
        self._hold(expected, here, done)
        if done["status"] in ("done", "noop", "partial"):
            back()
            self.model.captured()
            self.model.muddled |= expected.vague
            self.operation = None

    def _remember(self, expected: Expected, here: Standing, done: dict[str, Any]) -> None:
        now = snapshot(self.root)
        self.model.captured()
        conflicts = {one["path"] for one in done["files"]["conflict"]}

        def left(path: str) -> bool:
            return path in conflicts | expected.conflicts | expected.stay | expected.idle

        back = self.model.moved(expected, left)
        self.model.muddled |= {path for path in expected.vague if here.get(path) != now.get(path)}
        self.model.muddled |= expected.vague & {c.path for c in (*expected.taken_back, *expected.put_on)}
        self.operation = (here, now, self.model.cells, back)

    def _undo_at_once(self) -> None:
        assert self.operation is not None
        before, after, _, back = self.operation
        if self.chance.random() < 0.5:
            done = self.command("rewind", "--undo")
            assert done["status"] == "done" and snapshot(self.root) == before, done
            self.counts["undone"] += 1
            if self.chance.random() < 0.5:
                done = self.command("rewind", "--redo")
                assert done["status"] == "done" and snapshot(self.root) == after, done
                self.counts["redone"] += 1
            else:
                back()
                self.operation = None

    def _refuses(self, *words: str) -> None:
        """A checkpoint that was let go is none to go back to, and says so."""
        here = snapshot(self.root)
        done = self.command(*words)
        assert done["error"]["code"] == "retired" and snapshot(self.root) == here, done
        self.counts["retired"] += 1

    def command(self, *words: str) -> dict[str, Any]:
        files = () if words[0] == "revert" else ("--files",)
        answer = self.within.run(*words, *files, "--while-running", "--json", cwd=self.root, check=None)
        self.tell(f"{' '.join(words)}: {answer.code} {answer.out.decode()[:600]}")
        assert answer.code in (0, 4, 6), answer
        self.captures = self._captures()
        return dict(answer.json)

    def _hold(self, expected: Expected, here: Standing, done: dict[str, Any]) -> None:
        """What stands now against what must."""
        now, told = snapshot(self.root), {one["path"] for one in done["files"]["conflict"]}
        doubted = expected.conflicts | expected.vague
        sure = expected.conflicts - expected.vague
        self.counts[done["status"]] += 1
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
                self.counts["vague"] += 1
                continue
            must, stands = expected.standing.get(path), now.get(path)
            if path in expected.roughly and must and stands:
                must, stands = (must[0], 0, b""), (stands[0], 0, b"")
            assert stands == must, (path, stands, must, here.get(path), done)
            self.counts[
                "merged" if done["files"]["merge"] and path in done["files"]["merge"] else "sure"
            ] += 1

    # ---- the recorder

    def look(self, session: str, *, beside: bool = False) -> None:
        """Read what the agent wrote; `beside`: another recorder does so at the same time."""
        child = self._fork_recorder() if beside else 0
        self.watcher.look(self.agents[session])
        if child:
            self.tell("another recorder looks, too")
            assert os.waitpid(child, 0)[1] == 0
        captures = self._captures()
        if captures > self.captures:
            self.captures = captures
            self.model.captured()

    def _fork_recorder(self) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.within.run("watch", "--once", cwd=self.root)
                status = 0
            finally:
                os._exit(status)
        return child

    def _captures(self) -> int:
        return sum(isinstance(one.fact, Captured) for one in whole(self.watcher.recording))

    # ---- telling

    def apart(self, hand: str) -> None:
        """Different hands keep a distance that logs and clocks can tell."""
        if hand != self.last_hand:
            time.sleep(APART)
        self.last_hand = hand

    def tell(self, what: str) -> None:
        self.told.append(f"{len(self.told):3} {what}")

    def _write(self, by: str, run: Run | None, act: Callable[[], object]) -> set[str]:
        """Let a hand act, and tell the model; the paths that changed."""
        before, times, began = snapshot(self.root), _times(self.root), time.time_ns()
        act()
        after, new_times = snapshot(self.root), _times(self.root)
        self._tell_writes(by, before, after)
        now = self.model.tick()
        if run is not None:
            run.ended = now
        touched = {path for path, when in new_times.items() if times.get(path, when) != when}
        dated = {path: when for path, when in new_times.items() if path not in times and when < began - _TICK}
        moved = _moved(before, after)
        self.model.wrote(by, run, before, after, moved=moved, touched=touched, dated=dated)
        return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}

    def _tell_writes(self, by: str, before: Standing, after: Standing) -> None:
        changed = [one for one in before.keys() | after.keys() if before.get(one) != after.get(one)]
        signs = {
            one: "+" if one not in before else "-" if one not in after else "*" for one in sorted(changed)
        }
        self.tell(f"{by} writes {' '.join(sign + repr(one) for one, sign in signs.items())}")


def _readable(target: Path) -> bool:
    """Whether a tool that works on texts works on it."""
    try:
        if target.exists():
            target.read_text()
    except UnicodeDecodeError:
        return False
    return True


def _times(root: Path) -> dict[str, int]:
    """When each file and link was last changed in any way (ns)."""
    return {
        str(path.relative_to(root)): path.lstat().st_ctime_ns
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def _moved(before: Standing, after: Standing) -> bool:
    """Whether a folder came from elsewhere: what lies in it has old times."""
    return any(state[0] == "dir" and path not in before for path, state in after.items()) and any(
        path not in after for path in before
    )


def _named(path: str, doubted: set[str]) -> bool:
    """Whether a path is doubted, or lies above or below one that is."""
    return any(path == one or path.startswith(f"{one}/") or one.startswith(f"{path}/") for one in doubted)
