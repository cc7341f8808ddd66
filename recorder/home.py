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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from recorder.errors import Failed, IntegrityFailure, Refused

LAYOUT = 1

SECRET_SIZE = 32

_WRITTEN = ("secret", ".gitignore", "version")
_BEGINNINGS = {"locks", "trees", *_WRITTEN, *(f"{name}.new" for name in _WRITTEN)}


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
        """Raises Failed where it is missing, IntegrityFailure where it is not what was written."""
        path = self.folder / "secret"
        try:
            secret = path.read_bytes()
        except OSError as error:
            raise Failed(f"the home's secret {path} cannot be read: {error.strerror}", code="home") from error
        if len(secret) != SECRET_SIZE:
            raise IntegrityFailure(
                f"{path} is not the home's secret: it has {len(secret)} bytes, not {SECRET_SIZE}"
            )
        return secret

    @contextlib.contextmanager
    def lock(self, name: str, *, timeout: float = -1) -> Iterator[None]:
        """Hold the lock `home`, `watch` or `tree-<hex>`; another process that holds it is waited for.

        Raises Refused when `timeout` seconds pass (0: at once; negative: wait for ever), Failed where
        the lock file cannot be written.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / "locks" / name, mode=0o600)
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            raise Refused(
                f"another recorder process holds the lock “{name}” of {self.folder}; try again when it ends",
                code="locked",
            ) from None
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        try:
            yield
        finally:
            lock.release()

    def held(self, name: str) -> bool:
        """Whether another process, or another part of this one, holds a lock right now. Waits for nobody
        and writes nothing; False where that cannot be told."""
        import fcntl

        try:
            descriptor = os.open(self.folder / "locks" / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as filelock takes it, and let go at once
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False


def default_home(environment: Mapping[str, str]) -> Path:
    """The home's place where none is named: RECORDER_HOME, else the platform's user data folder."""
    named = environment.get("RECORDER_HOME")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("recorder", appauthor=False)


def find_home(folder: Path) -> Home | None:
    """The home in this folder, or None where there is none yet. Raises Refused for a newer layout.

    Its `folder` is the real path, so that a link moved meanwhile does not lead elsewhere.
    """
    try:
        folder = folder.resolve()
        layout = (folder / "version").read_bytes().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise Failed(f"the home {folder} cannot be read: {why}", code="home") from error
    if not layout.isdigit():
        raise IntegrityFailure(f"{folder / 'version'} does not say which layout the home has")
    if int(layout) > LAYOUT:
        raise Refused(
            f"the home {folder} was written by a newer recorder: its layout is {int(layout)}, "
            f"this one knows {LAYOUT}; update the recorder",
            code="newer_home",
        )
    return Home(folder)


def open_home(folder: Path) -> Home:
    """The home in this folder, created private where it is missing.

    Raises Refused where the folder is somebody else's: not empty, and no home. Raises Failed when it
    cannot be created.
    """
    found = find_home(folder)
    if found is not None:
        return found
    try:
        home = Home(folder.resolve())
        home.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(home.folder):
            return _made_meanwhile(home.folder)
        home.folder.chmod(0o700)
        (home.folder / "locks").mkdir(mode=0o700, exist_ok=True)
        with home.lock("home"):
            _fill(home.folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return home


def _is_ours(folder: Path) -> bool:
    """Whether there is nothing in it but what a home's creation leaves that was cut off."""
    names = {path.name for path in folder.iterdir()}
    return not names or ("locks" in names and names <= _BEGINNINGS)


def _made_meanwhile(folder: Path) -> Home:
    """Another process may have completed the home since we looked; else its files are not ours."""
    home = find_home(folder)
    if home is None:
        raise Refused(
            f"{folder} is not empty and is no home of the recorder; "
            "name another folder with --home or RECORDER_HOME",
            code="not_a_home",
        )
    return home


def _unwritable(folder: Path, error: OSError) -> Failed:
    return Failed(
        f"the home {folder} cannot be written: {error.strerror or error}; "
        "name another with --home or RECORDER_HOME",
        code="home",
    )


def _fill(folder: Path) -> None:
    """Runs under the home's lock; `version` is written last and makes the home a home."""
    if (folder / "version").exists():
        return
    (folder / "trees").mkdir(mode=0o700, exist_ok=True)
    if not (folder / "secret").exists():
        _write_private(folder / "secret", secrets.token_bytes(SECRET_SIZE))
    _write_private(folder / ".gitignore", b"*\n")
    _write_private(folder / "version", f"{LAYOUT}\n".encode())
    sync_folder(folder)


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the names in it durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
