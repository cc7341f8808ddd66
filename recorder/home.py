"""The home: the one folder where the recorder stores everything, private to its user.

    home/
      .gitignore        `*`
      version           the layout's number, one line
      secret            32 random bytes: the key of body digests
      log.db            the event log and the bodies
      views.db          the projections
      locks/            lock files: home, watch, one per work tree
      trees/<hex id>/   one folder per work tree: store.git (the shadow store) and the stat cache
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from recorder.errors import Failed, Refused

LAYOUT = 1


@dataclass(frozen=True)
class Home:
    """Paths inside a home. Open one with `open_home` (creates it) or `find_home` (does not)."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log.db"

    @property
    def views(self) -> Path:
        return self.folder / "views.db"

    @property
    def trees(self) -> Path:
        return self.folder / "trees"

    def tree(self, tree: UUID) -> Path:
        return self.trees / tree.hex

    def store(self, tree: UUID) -> Path:
        return self.tree(tree) / "store.git"

    def secret(self) -> bytes:
        return (self.folder / "secret").read_bytes()

    @contextlib.contextmanager
    def lock(self, name: str, *, timeout: float = -1) -> Iterator[None]:
        """Hold the lock `home`, `watch` or `tree-<hex>`; another process that holds it is waited for.

        Raises Refused when `timeout` seconds pass (0: at once; negative: wait for ever).
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / "locks" / name, mode=0o600)
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            raise Refused(
                f"another recorder process holds the lock “{name}” of {self.folder}; try again when it has ended",
                code="locked",
            ) from None
        try:
            yield
        finally:
            lock.release()


def default_home(environment: Mapping[str, str]) -> Path:
    """The home's place where none is named: RECORDER_HOME, else the platform's user data folder."""
    named = environment.get("RECORDER_HOME")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("recorder", appauthor=False)


def find_home(folder: Path) -> Home | None:
    """The home in this folder, or None where there is none yet. Raises Refused for a newer layout."""
    home = Home(folder)
    try:
        layout = (folder / "version").read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Failed(f"the home {folder} cannot be read: {error.strerror}", code="home") from error
    if not layout.isdecimal() or int(layout) > LAYOUT:
        raise Refused(
            f"the home {folder} was written by a newer recorder (layout {layout!r}, this one knows {LAYOUT}); "
            "update the recorder",
            code="newer_home",
        )
    return home


def open_home(folder: Path) -> Home:
    """The home in this folder, created private where it is missing. Raises Failed when it cannot be."""
    found = find_home(folder)
    if found is not None:
        return found
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(folder)
        (folder / "locks").mkdir(mode=0o700, exist_ok=True)
        home = Home(folder)
        with home.lock("home"):
            _fill(folder)
    except OSError as error:
        raise Failed(
            f"the home {folder} cannot be created: {error.strerror}; name another with --home or RECORDER_HOME",
            code="home",
        ) from error
    return home


def _make_private(folder: Path) -> None:
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)


def _fill(folder: Path) -> None:
    """Runs under the home's lock; `version` is written last and makes the home a home."""
    if (folder / "version").exists():
        return
    (folder / "trees").mkdir(mode=0o700, exist_ok=True)
    if not (folder / "secret").exists():
        _write_private(folder / "secret", secrets.token_bytes(32))
    _write_private(folder / ".gitignore", b"*\n")
    _write_private(folder / "version", f"{LAYOUT}\n".encode())


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
