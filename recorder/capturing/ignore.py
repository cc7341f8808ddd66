"""What is ignored, by git's own answer, asked in bulk and remembered while no rule changed.

A work tree has a zone per repository: its own, and each nested one's. Tracked files are known from the
zone's index and never asked about; for the rest one `check-ignore` without the index is run for each
level of folders, so that it always reads the rules as they are now. In a plain folder the shadow store
stands in for the repository, and the same rules hold.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from recorder import git
from recorder.capturing.repository import Repository
from recorder.capturing.statcache import RACY_NS, signature
from recorder.capturing.tracked import DEADLINE, Tracked
from recorder.errors import StoreFailure

Verdict = bool | str
"""Ignored or not; or why it cannot be said."""

_MAX_PATH = 4000
"""Bytes of a path that the system, and so git, still takes in one piece."""

_TOO_LONG = "its path is too long for git to say whether it is ignored"

_CANNOT_SAY = "git cannot say whether it is ignored"

_IMPATIENT = 1.0
"""Seconds that git is given when it was last waited for in vain: what held it up may be over. Twice as
many each time after that."""

_HUNG_ENOUGH = 2
"""Repositories in which git hangs before it is left alone in all of them."""

_MAX_DEATHS = 8
"""A query that dies is asked again without the path it died on, this often."""


class Zone:
    """The part of a work tree that one repository's rules hold for.

    `prefix` is its folder in the work tree, `key` stands for everything that its rules depend on but
    the ignore files in its folders; `scratch` is a folder of the recorder's.
    """

    def __init__(
        self, prefix: bytes, top: bytes, repository: Repository | None, git_dir: bytes, scratch: bytes
    ) -> None:
        self.prefix, self.top = prefix, top
        self.repository, self.git_dir = repository, git_dir
        self.excludes = ""
        self.key = b""
        self.why_not: str | None = None
        self._scratch = scratch
        self._tracked: Tracked | None = None
        self._index_key: bytes | None = None
        self._config_key: bytes | None = None
        self.patience = DEADLINE

    def tracks(self, path: bytes) -> bool:
        """Whether git tracks this path of the work tree, or something below it."""
        if self._tracked is None:
            return False
        inner = path[len(self.prefix) + 1 :] if self.prefix else path
        return inner in self._tracked.paths or inner in self._tracked.folders

    def refresh(self, now: int) -> None:
        """Read again what changed since the last time. What cannot be read stays as last known; where
        nothing is known of the rules, `why_not` says why."""
        self.why_not = self._trap()
        if self.why_not is None:
            self._try(self._refresh_tracked, now, needed=False)
        if self.why_not is None:
            self._try(self._refresh_excludes, now, needed=self._config_key is None)
        self.key = _digest(
            self.git_dir,
            os.fsencode(self.excludes),
            _file_key(os.fsencode(self.excludes), now),
            _file_key(self._common + b"/info/exclude", now),
            _file_key(self._common + b"/config", now),
        )

    def _try(self, refresh: Callable[[int], None], now: int, *, needed: bool) -> None:
        try:
            refresh(now)
        except StoreFailure as error:
            if needed or error.code == "deadline":
                self.give_up(error)

    def give_up(self, error: StoreFailure) -> str:
        """Ask nothing more this time, and wait less the next where this was in vain; returns why."""
        self.why_not = f"{_CANNOT_SAY}: {error.message}"
        if error.code == "deadline":
            self.patience = min(2 * self.patience, DEADLINE) if self.patience < DEADLINE else _IMPATIENT
        return self.why_not

    @property
    def _common(self) -> bytes:
        return self.repository.common_dir if self.repository else self.git_dir

    def _trap(self) -> str | None:
        """What git would wait for without end, or None."""
        for file in (self._common + b"/config", self._common + b"/info/exclude", *_users_configs()):
            if _blocks(file):
                return f"{_CANNOT_SAY}: {os.fsdecode(file)} is no file that can be read"
        return None

    def _refresh_excludes(self, now: int) -> None:
        key = _digest(*(_file_key(file, now) for file in (self._common + b"/config", *_users_configs())))
        if key == self._config_key:
            return
        arguments = ["config", "--type=path", "--get", "core.excludesFile"]
        answer = git.run(arguments, git_dir=self.git_dir, users_config=True, deadline=self.patience)
        if answer.status not in (0, 1):
            raise StoreFailure(answer.complaint)
        if b"\0" in answer.out:
            raise StoreFailure("its answer is none that git gives")
        self.excludes = os.fsdecode(answer.out).rstrip("\n") or default_excludes()
        self._config_key = key

    def _refresh_tracked(self, now: int) -> None:
        if self.repository is None:
            return
        key = _file_key(self.repository.index, now)
        if key != self._index_key or self._tracked is None:
            self._tracked = Tracked(self.repository, self._scratch, self.patience)
            self._index_key = key
        self._tracked.unfold(self.patience)


class Ignore:
    """The ignore rules of one work tree, with what they said before. `fallback` is the git folder that
    stands in where the work tree has no repository."""

    def __init__(self, fallback: bytes, root: bytes) -> None:
        self._fallback, self._root = fallback, root
        self._zones: dict[bytes, Zone] = {}
        self._known: dict[bytes, tuple[bytes, dict[bytes, bool]]] = {}

    def zone(self, prefix: bytes, repository: Repository | None, now: int) -> Zone:
        """The zone whose top is the folder `prefix`, as its rules are at `now` (ns)."""
        git_dir = repository.git_dir if repository else self._fallback
        zone = self._zones.get(prefix)
        if zone is None or zone.git_dir != git_dir:
            top = self._root.rstrip(b"/") + b"/" + prefix if prefix else self._root
            scratch = os.path.dirname(self._fallback)
            zone = self._zones[prefix] = Zone(prefix, top, repository, git_dir, scratch)
        hung = [one for one in self._zones.values() if one.patience < DEADLINE and one is not zone]
        zone.patience = min([zone.patience, *(one.patience for one in hung)])
        if len(hung) >= _HUNG_ENOUGH:
            zone.why_not = hung[-1].why_not
        else:
            zone.refresh(now)
        return zone

    def known(self, folder: bytes, key: bytes) -> dict[bytes, bool]:
        """What was said of the names in this folder under the rules that `key` stands for; a folder's
        name ends in a slash. To be added to."""
        standing = self._known.get(folder)
        if standing is None or standing[0] != key:
            standing = self._known[folder] = (key, {})
        return standing[1]

    def ask(self, zone: Zone, paths: Sequence[bytes]) -> list[Verdict]:
        """Git's verdict on each path of the work tree."""
        if any(len(self._root) + len(path) > _MAX_PATH for path in paths):
            short = [path for path in paths if len(self._root) + len(path) <= _MAX_PATH]
            answers = dict(zip(short, self.ask(zone, short), strict=True))
            return [answers.get(path, _TOO_LONG) for path in paths]
        cut = len(zone.prefix) + 1 if zone.prefix else 0
        left = [path[cut:] for path in paths]
        verdicts: list[Verdict] = []
        deaths = 0
        why = zone.why_not
        while left and why is None:
            try:
                said, death = _check(zone, left)
            except StoreFailure as error:
                why = zone.give_up(error)
                break
            verdicts += said
            left = left[len(said) :]
            if death and left:
                deaths += 1
                verdicts.append(death)
                left = left[1:]
                why = death if deaths == _MAX_DEATHS else None
        return verdicts + [why or ""] * len(left)

    def ignored_below(self, found: Iterable[tuple[bytes, bool]]) -> frozenset[bytes]:
        """Of the paths in a plain folder, those that git says are ignored."""
        zone = self._zones.get(b"") or self.zone(b"", None, 0)
        paths = [path for path, _ in found]
        return frozenset(
            path for path, verdict in zip(paths, self.ask(zone, paths), strict=True) if verdict is True
        )


def key_below(key: bytes, ignore_file: os.stat_result | None, now: int) -> bytes:
    """What the rules below a folder depend on, from what they depend on above it and its own ignore file."""
    if ignore_file is None:
        return key
    return _digest(key, signature(ignore_file) + _racy(ignore_file, now))


def default_excludes() -> str:
    """Where git looks for the user's ignore rules when nothing is configured (gitignore(5))."""
    return os.fsdecode(_users_folder() + b"/ignore")


def _check(zone: Zone, paths: Sequence[bytes]) -> tuple[list[bool], str | None]:
    """The verdicts up to where git died, and why it did. `./` keeps a name from being taken for magic.

    Raises StoreFailure where it did not answer at all.
    """
    excludes = zone.excludes if os.path.isfile(zone.excludes) else os.devnull  # git dies of a folder
    answer = git.run(
        ["check-ignore", "--no-index", "-z", "--stdin", "-v", "-n"],
        git_dir=zone.git_dir,
        work_tree=zone.top,
        stdin=b"".join(b"./%b\0" % path for path in paths),
        config=(f"core.excludesFile={excludes}",),
        deadline=zone.patience,
    )
    zone.patience = DEADLINE
    fields = answer.out.split(b"\0")
    patterns = fields[2 : len(fields) - len(fields) % 4 : 4]
    verdicts = [bool(pattern) and not pattern.startswith(b"!") for pattern in patterns][: len(paths)]
    if answer.status in (0, 1) and len(verdicts) == len(paths):
        return verdicts, None
    complaint = answer.complaint if answer.status not in (0, 1) else "its answer is none that git gives"
    return verdicts, f"{_CANNOT_SAY}: {complaint}"


def _users_configs() -> tuple[bytes, bytes]:
    return os.path.expanduser(b"~/.gitconfig"), _users_folder() + b"/config"


def _users_folder() -> bytes:
    base = os.environb.get(b"XDG_CONFIG_HOME") or os.path.expanduser(b"~/.config")
    return base + b"/git"


def _blocks(file: bytes) -> bool:
    """Whether what stands there is neither a file nor a folder: git waits for a pipe, and for a device."""
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and not os.path.samefile(file, os.devnull)


def _file_key(file: bytes, now: int) -> bytes:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return b"-"
    return signature(status) + _racy(status, now)


def _racy(status: os.stat_result, now: int) -> bytes:
    """A file that changed just now may change again unseen: its key is good for this once."""
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    return b"%d" % now if changed > now - RACY_NS else b""


def _digest(*parts: bytes) -> bytes:
    whole = blake2b(digest_size=16)
    for part in parts:
        whole.update(len(part).to_bytes(4, "big") + part)
    return whole.digest()
