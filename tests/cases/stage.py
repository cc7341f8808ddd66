"""Where a case is played: a project, an agent that works in it, and the recorder within this process."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder import git as git_calls
from tests.capture.helpers import CLEAN, commit_all, make_repository
from tests.flow.agents import Claude, Pi
from tests.flow.within import APART, Within

Agent = Pi | Claude
Act = Callable[[Agent], object]
Deed = Callable[[Path], object]
"""Something done in a project's folder, by whomever."""


def saves(name: str, content: str) -> Deed:
    def save(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    return save


def by_shell(*deeds: Deed) -> Act:
    return lambda agent: agent.shell("…", lambda: [deed(agent.folder) for deed in deeds])


def by_tool(name: str, content: str) -> Act:
    return lambda agent: agent.write(name, content)


def by_shell_alone(name: str, content: str) -> Act:
    return by_shell(saves(name, content))


WRITERS: dict[str, Callable[[str, str], Act]] = {"tool": by_tool, "shell": by_shell_alone}


class Stage(NamedTuple):
    """`kind` is the agent's; `write` is the way in which it writes a file: by its own tool, or by a shell."""

    within: Within
    folder: Path
    kind: str
    write: Callable[[str, str], Act]

    def agent(self, kind: str | None = None, folder: Path | None = None) -> Agent:
        return self.within.agent(kind or self.kind, folder or self.folder)

    def play(self, agent: Agent, *runs: tuple[Act, ...]) -> list[str]:
        """One prompt after another, each with what its run does; returns their entries. A person may act
        at once afterwards."""
        with self.within.watching() as watcher:
            entries = [
                watcher.prompt(agent, f"prompt {number}", *acts, apart=0)
                for number, acts in enumerate(runs, 1)
            ]
        time.sleep(APART)
        return entries

    def json(self, *words: str, check: int | None = 0, cwd: Path | None = None) -> Any:
        return self.within.json(*words, cwd=cwd or self.folder, check=check)

    def rewind(self, *words: str, check: int | None = 0) -> Any:
        """The files alone; what was asked for is in the report."""
        return self.json("rewind", *words, "--files", check=check)


def project(base: Path, kind: str) -> Path:
    """Some files in a plain folder, or committed in a repository of the same name."""
    folder = base / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "go.mod").write_text("module one\n")
    (folder / "src" / "app.py").write_text("print('one')\n")
    (folder / "notes.md").write_text("mine\n")
    if kind == "repository":
        make_repository(folder)
        commit_all(folder)
    return folder


def git(folder: Path, *words: str, check: bool = True) -> str:
    """What a person does with git, with the person's own configuration."""
    environment = {**CLEAN, "HOME": str(folder.parent)}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, check=check)
    return done.stdout.decode()


def impatient(patch: pytest.MonkeyPatch, seconds: float = 0.2) -> None:
    """No call of git is waited for longer."""
    execute = git_calls._execute
    patch.setattr(
        git_calls,
        "_execute",
        lambda command, environment, stdin, deadline: execute(
            command, environment, stdin, min(deadline, seconds)
        ),
    )


def stand_in(command: str, instead: str) -> str:
    """A git that does something else for one of its commands."""
    return f'case "$*" in *{command}*) {instead};; esac\nexec /usr/bin/git "$@"'


def store_of(stage: Stage) -> Path:
    [store] = stage.within.home.glob("trees/*/store.git")
    return store


def played(stage: Stage, *, runs: int = 2) -> None:
    """Each run writes a file anew and makes another."""
    agent = stage.agent()
    stage.play(
        agent,
        *(
            (stage.write("notes.md", f"{number}\n"), by_shell(saves(f"new-{number}", f"{number}\n")))
            for number in range(1, runs + 1)
        ),
    )
