"""What the recorder needs around it: git, settings that can be read, and the agents' folders."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cli.checks.problem import Problem, counted, listed
from recorder.reading.folders import Folders
from recorder.sources import all_sources

if TYPE_CHECKING:
    from recorder.home import Home
    from recorder.sources.base import Root, Source

ACTIVE_SECONDS = 600
"""An agent whose log was written to within this time is at work."""


def check_git() -> Iterator[Problem]:
    """A git that works, and is not older than what this was made for."""
    from recorder import git
    from recorder.errors import StoreFailure

    oldest = ".".join(map(str, git.OLDEST))
    install = f"install git {oldest} or newer, or put it on the path"
    try:
        found = git.version()
    except StoreFailure as error:
        yield Problem("git_missing", error.message, install)
        return
    if found < git.OLDEST:
        said = ".".join(map(str, found)) or "one that does not say its version"
        yield Problem("git_old", f"the git on the path is {said}, and {oldest} is needed", install)


def check_settings() -> Iterator[Problem]:
    """Every value of the user's settings and of the environment is one."""
    from recorder.settings import load_settings

    for warning in load_settings(os.environ).warnings:
        yield _setting(warning)


def check_project_settings(projects: Collection[Path]) -> Iterator[Problem]:
    """The projects' own files say what they may say."""
    from recorder.settings import load_settings

    everywhere = load_settings(os.environ).warnings
    for project in projects:
        for warning in load_settings(os.environ, project=project).warnings[len(everywhere) :]:
            yield _setting(warning)


def _setting(warning: str) -> Problem:
    return Problem("setting", warning, "mend it there; “recorder config” shows what holds meanwhile")


def check_logs_there(recorded: Collection[str]) -> Iterator[Problem]:
    """The agents that sessions were recorded of still keep them where they did."""
    for source in all_sources():
        roots = _roots(source)
        if source.agent in recorded and not any(map(_is_there, roots)):
            where = listed([str(root.folder) for root in roots])
            yield Problem(
                "logs_missing",
                f"{source.agent} keeps no sessions any more in {where}",
                f"if {source.agent} keeps them elsewhere now, start the recorder with the same environment; "
                "what is recorded stays",
                "advice",
            )


def check_logs_readable() -> Iterator[Problem]:
    """The folders of the agents' logs, and the logs in them, can be read."""
    for source in all_sources():
        there = [root for root in _roots(source) if _is_there(root)]
        logs, unreadable = _scan(there)
        for root in there:
            if not os.access(root.folder, os.R_OK | os.X_OK):
                unreadable.setdefault(str(root.folder), f"{root.folder} cannot be read: Permission denied")
        closed = [log for log in sorted(logs) if not os.access(log, os.R_OK)]
        why = [*unreadable.values()]
        why += [f"{counted(len(closed), 'file')} cannot be read: {listed(closed)}"] if closed else []
        for one in why:
            yield Problem(
                "logs_unreadable",
                f"sessions of {source.agent} are not seen: {one}",
                "give yourself the right to read it",
            )


def check_watcher(home: Home, now: float) -> Iterator[Problem]:
    """Somebody watches while an agent is at work. `now` in seconds since the epoch."""
    from cli.policy import why_not_captured

    if home.held("watch"):
        return
    busy = []
    for source in all_sources():
        logs, _ = _scan(_roots(source))
        newest = max((status.st_mtime for status in logs.values()), default=0.0)
        if now - newest < ACTIVE_SECONDS and why_not_captured(source.agent) is None:
            busy.append(source.agent)
    if busy:
        yield Problem(
            "not_watched",
            f"{' and '.join(busy)} {'was' if len(busy) == 1 else 'were'} at work within the last "
            f"{ACTIVE_SECONDS // 60} minutes, and no recorder watches",
            "run “recorder watch” beside your agent",
            "advice",
        )


def _roots(source: Source) -> list[Root]:
    return source.roots(os.environ, Path.home())


def _scan(roots: Sequence[Root]) -> tuple[dict[str, os.stat_result], dict[str, str]]:
    """The logs below these folders by path, and why some of the folders could not be read."""
    with contextlib.closing(Folders(roots, notify=False)) as folders:
        return folders.scan(), folders.unreadable


def _is_there(root: Root) -> bool:
    """Also where that cannot be told: it is a problem of its own."""
    try:
        root.folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
