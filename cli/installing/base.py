"""What an installer is: one agent's rules for where the recorder goes into its configuration.

An installer looks and says which files are to change, and how; it writes nothing. `carry_out` writes, whole
files or none of each, so that a dry run shows what a run does.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from recorder.errors import Failed


class Where(NamedTuple):
    """Into whose configuration, and what is baked into it. `scope`: `user` or `project` (then that of
    `folder`). `home` is the recorder's, `budget_ms` the time that a hook may take."""

    scope: str
    folder: Path
    user_home: Path
    environment: Mapping[str, str]
    home: Path
    budget_ms: int


class Change(NamedTuple):
    """One file as it is and as it is to be; None where it is not there, or is to go. Of the folders above it
    those below `root` are made, and removed again once they are empty. `private`: in the recorder's home,
    for its user's eyes only."""

    path: Path
    before: bytes | None
    after: bytes | None
    root: Path
    private: bool = False

    @property
    def word(self) -> str:
        return "added" if self.before is None else "deleted" if self.after is None else "modified"


class Installer(Protocol):
    """One agent. Both raise Refused, with the reason, where a file that is not ours stands in the way or one
    cannot be understood."""

    agent: str

    def install(self, where: Where) -> list[Change]:
        """What is missing for the recorder to be there as this version would put it; nothing where it is."""
        ...

    def uninstall(self, where: Where) -> list[Change]:
        """What is to be taken out, every other byte kept; nothing where the recorder is not there."""
        ...

    def switched_off(self, where: Where) -> bool:
        """Whether the agent's own settings keep what is installed from being called."""
        ...

    def advice(self, where: Where) -> list[str]:
        """What a person has to know or do once it is there, a sentence each."""
        ...


def read(path: Path) -> bytes | None:
    """A file's bytes, None where there is none. Raises Failed where it cannot be read."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}", code="configuration") from error


def carry_out(changes: list[Change]) -> None:
    """Raises Failed where a file cannot be written; what was written before it stays."""
    for change in changes:
        try:
            _write(change) if change.after is not None else _remove(change)
        except OSError as error:
            raise Failed(
                f"{change.path} cannot be written: {error.strerror}", code="configuration"
            ) from error


def _write(change: Change) -> None:
    """A link to a file stays one, and a file keeps its mode."""
    path = Path(os.path.realpath(change.path))
    path.parent.mkdir(0o700 if change.private else 0o777, parents=True, exist_ok=True)
    new = 0o600 if change.private else 0o666 & ~_umask()
    mode = path.stat().st_mode & 0o7777 if path.exists() else new
    descriptor, beside = tempfile.mkstemp(prefix=".recorder-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(change.after or b"")
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _remove(change: Change) -> None:
    change.path.unlink(missing_ok=True)
    for folder in change.path.parents:
        if folder == change.root or change.root not in folder.parents:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def difference(change: Change) -> str:
    """A unified diff, for people."""
    old, new = (
        (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
        for content in (change.before, change.after)
    )
    names = (
        "/dev/null" if change.before is None else str(change.path),
        "/dev/null" if change.after is None else str(change.path),
    )
    lines = (line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(old, new, *names))
    return "".join(lines)


def documents(changes: list[Change]) -> list[dict[str, Any]]:
    return [{"path": str(one.path), "change": one.word, "diff": difference(one)} for one in changes]
