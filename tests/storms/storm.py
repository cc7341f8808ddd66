"""One storm: two agents, a person and git at work in one project at once, and rewinds in between. This is its
state and what every act needs; the acts are in `acts`, going back and what is checked then in `backs`."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from recorder.events import Captured
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Watcher, Within, whole
from tests.storms import acts, backs
from tests.storms.contents import Standing, differing
from tests.storms.hands import Hands
from tests.storms.model import Model, Run

Agent = Pi | Claude
TICK = 10_000_000
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
        self.steered: dict[Run, list[Run]] = {}
        self.unended: dict[str, Run] = {}
        self._stack = contextlib.ExitStack()

    def blow(self, steps: int) -> None:
        try:
            with self._stack:
                self.restart()
                acts.prompt(self, "a")
                for _ in range(steps):
                    self.step()
        except BaseException as error:
            error.add_note("\n".join(["", "the storm:", *self.told]))
            raise

    def step(self) -> None:
        kind = self.chance.choices(["agents", "others", "backs", "rare"], [10, 4, 4, 1])[0]
        if kind == "agents":
            session = self.chance.choice(self.busy)
            self.chance.choice(self._possible(session))(self, session)
        else:
            self.chance.choice(OTHERS[kind])(self)

    def _possible(self, session: str) -> list[Callable[[Storm, str], None]]:
        if self.runs[session] is None:
            return [acts.prompt]
        ends = self.chance.choice([[], [], [acts.kill], [acts.abort]])
        return [*[acts.shell, acts.tool, acts.done] * 2, acts.steer, *ends]

    def restart(self) -> None:
        """Another recorder watches from here on."""
        self._stack.close()
        self.tell("a new recorder")
        self.watcher: Watcher = self._stack.enter_context(self.within.watching())
        self.watcher.steps = self.steps
        for session, agent in self.agents.items():
            if agent.log.exists():
                self.look(session)

    def look(self, session: str, *, beside: bool = False) -> None:
        """Read what the agent wrote; `beside`: another recorder does so at the same time."""
        child = self._fork_recorder() if beside else 0
        self.watcher.look(self.agents[session])
        if child:
            self.tell("another recorder looks, too")
            assert os.waitpid(child, 0)[1] == 0
        captures = self.count_captures()
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

    def count_captures(self) -> int:
        return sum(isinstance(one.fact, Captured) for one in whole(self.watcher.recording))

    def apart(self, hand: str) -> None:
        """Different hands keep a distance that logs and clocks can tell."""
        if hand != self.last_hand:
            time.sleep(APART)
        self.last_hand = hand

    def tell(self, what: str) -> None:
        self.told.append(f"{len(self.told):3} {what}")

    def write(self, by: str, run: Run | None, act: Callable[[], object]) -> set[str]:
        """Let a hand act, and tell the model; the paths that changed."""
        before, times, began = snapshot(self.root), _times(self.root), time.time_ns()
        act()
        after, new_times = snapshot(self.root), _times(self.root)
        self.tell_writes(by, before, after)
        now = self.model.tick()
        if run is not None:
            run.ended = now
        touched = {path for path, when in new_times.items() if times.get(path, when) != when}
        dated = {path: when for path, when in new_times.items() if path not in times and when < began - TICK}
        moved = _moved(before, after)
        self.model.wrote(by, run, before, after, moved=moved, touched=touched, dated=dated)
        return differing(before, after)

    def tell_writes(self, by: str, before: Standing, after: Standing) -> None:
        signs = {
            one: "+" if one not in before else "-" if one not in after else "*"
            for one in sorted(differing(before, after))
        }
        self.tell(f"{by} writes {' '.join(sign + repr(one) for one, sign in signs.items())}")


OTHERS: dict[str, list[Callable[[Storm], None]]] = {
    "others": [acts.person] * 3 + [acts.use_git],
    "backs": [backs.rewind] * 3 + [backs.whole_tree, backs.revert, backs.undo],
    "rare": [acts.navigate, acts.prune, Storm.restart, acts.crossed_calls, acts.hang],
}
"""What happens besides the agents' acts, by how often."""


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
