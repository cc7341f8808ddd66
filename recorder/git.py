"""The one door to git: every call of the git program goes through `run`, and nothing else imports GitPython.

A call sees no `GIT_*` of the environment, no system or global configuration, no hooks, filters,
monitors, prompts or network, and its repository is always named. What a repository's own
configuration says about ignoring still counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import msgspec

from recorder.errors import StoreFailure

DEADLINE = 120.0
"""Seconds after which a call is killed."""

OLDEST = (2, 34)
"""The first release that this was made for."""

_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.quotePath=false",
    "core.pager=cat",
    "core.editor=true",
    "credential.helper=",
    "diff.external=",
    "gc.auto=0",
    "maintenance.auto=false",
    "log.showSignature=false",
    "safe.directory=*",
)

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}

_NO_CONFIG = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


class Answer(msgspec.Struct, frozen=True):
    """What a call gave: exit status, stdout as it is, stderr as text."""

    status: int
    out: bytes
    err: str

    @property
    def complaint(self) -> str:
        """The line of stderr that says what went wrong, for a sentence."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        grave = [line for line in lines if line.startswith(("fatal:", "error:"))]
        return next(iter(grave or lines), f"exit status {self.status}")


def run(
    arguments: Sequence[str],
    *,
    git_dir: bytes,
    work_tree: bytes | None = None,
    stdin: bytes | None = None,
    config: Sequence[str] = (),
    index: bytes | None = None,
    users_config: bool = False,
    deadline: float = DEADLINE,
) -> Answer:
    """Run one git command on a repository and give its answer, whatever its exit status.

    Paths in `arguments` are relative to the work tree. No index is read but the one that is named:
    reading the user's makes git touch files beside it and write objects where it is split or sparse.
    `users_config` lets the system's and the user's own configuration be read, for asking what they
    say. Raises StoreFailure when git cannot be started, and with the code `deadline` when it is not
    done within `deadline` seconds (it is killed then).
    """
    command = ["git", *_options(config), f"--git-dir={os.fsdecode(git_dir)}"]
    if work_tree is not None:
        command.append(f"--work-tree={os.fsdecode(work_tree)}")
    environment = _ENVIRONMENT if users_config else _ENVIRONMENT | _NO_CONFIG
    environment = environment | {"GIT_INDEX_FILE": os.fsdecode(index or git_dir + b"/no-index")}
    if stdin is None:
        return _execute([*command, *arguments], environment, None, deadline)
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(_scratch_file())
            file.write(stdin)
            file.seek(0)
        except OSError as error:
            raise StoreFailure(f"there is no room for what git is to be asked: {error.strerror}") from error
        return _execute([*command, *arguments], environment, file, deadline)


def demand(arguments: Sequence[str], *, git_dir: bytes, **options: Any) -> bytes:
    """`run`, and its stdout; raises StoreFailure with the first line of stderr when git fails."""
    answer = run(arguments, git_dir=git_dir, **options)
    if answer.status != 0:
        raise StoreFailure(f"git {arguments[0]} failed in {os.fsdecode(git_dir)}: {answer.complaint}")
    return answer.out


def version() -> tuple[int, ...]:
    """The numbers of the git on the path, empty where it does not tell them. Raises StoreFailure."""
    answer = _execute(["git", "--version"], _ENVIRONMENT | _NO_CONFIG, None, 10.0)
    if answer.status != 0:
        raise StoreFailure(f"the git on the path does not work: {answer.complaint}")
    found = re.search(rb"(\d+)\.(\d+)(?:\.(\d+))?", answer.out)
    return tuple(int(number) for number in found.groups() if number) if found else ()


def _options(config: Sequence[str]) -> list[str]:
    return [part for setting in (*_SAFE, *config) for part in ("-c", setting)]


def _scratch_file() -> IO[bytes]:
    """In memory where the system can: there may be no folder for temporary files, and the current one is
    the user's."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("stdin"), "w+b")
    return tempfile.TemporaryFile()


def _execute(command: list[str], environment: dict[str, str], stdin: Any, deadline: float) -> Answer:
    drop_inherited()
    git, not_found = _git_python()
    try:
        status, out, err = git("/").execute(
            command,
            istream=stdin,
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            kill_after_timeout=deadline,
            env=environment,
        )
    except not_found as error:
        raise StoreFailure("git is not installed, or not on the path") from error
    except OSError as error:
        raise StoreFailure(f"the git on the path does not work: {error.strerror}") from error
    if status < 0 and err.startswith("Timeout: "):
        raise StoreFailure(
            f"git was not done within {deadline:g} seconds and was stopped: {command[-1]}", code="deadline"
        )
    return Answer(status, bytes(out), str(err))


def _git_python() -> tuple[Any, type[Exception]]:
    """GitPython's class for commands, and what it raises where there is no git.

    When it is imported it starts the git of the path with no deadline and waits for it; it is led to
    something that cannot be started instead, which it takes quietly.
    """
    if "git" not in sys.modules:
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"
        os.environ["GIT_PYTHON_GIT_EXECUTABLE"] = os.devnull
    try:
        from git import Git
        from git.exc import GitCommandNotFound
    finally:
        drop_inherited()
    return Git, GitCommandNotFound


def drop_inherited() -> None:
    """Take every `GIT_*` out of this process's environment.

    GitPython hands the process's environment on and cannot leave a variable out, and a `GIT_DIR`
    inherited from a hook of the user's would send its commands into the user's repository.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
