"""What every shadow store is made of besides its objects and refs, and putting it back."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from recorder.capturing.durable import put_aside, sync_folder, write_durably
from recorder.errors import StoreFailure

CAPTURES = "refs/recorder/captures/"

_CONFIG = """\
[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	autocrlf = false
	hooksPath = /dev/null
	fsmonitor = false
	logAllRefUpdates = false
	attributesFile = /dev/null
	commitGraph = false
	multiPackIndex = false
[gc]
	auto = 0
	writeCommitGraph = false
[repack]
	writeBitmaps = false
[maintenance]
	auto = false
[commit]
	gpgSign = false
[fsck]
	gitmodulesName = ignore
	gitmodulesUrl = ignore
	gitmodulesPath = ignore
	gitmodulesSymlink = ignore
	gitmodulesBlob = ignore
	gitmodulesParse = ignore
	gitmodulesUpdate = ignore
	gitmodulesLarge = ignore
"""
_FOLDERS = ("", "info", "objects", "objects/pack", "objects/info", "refs", "refs/recorder", CAPTURES)
_FIXED = {
    "config": _CONFIG.encode(),
    "info/attributes": b"* -text -ident -filter -eol -working-tree-encoding -export-subst -diff\n",
    "HEAD": b"ref: refs/heads/none\n",
}
"""Files of every store, by their whole content; `HEAD` is written last and makes the folder a repository."""

_OWN = 0o700
"""What the owner needs in every folder of a store."""


def quarantine(store: Path) -> Path:
    """Where the damaged parts of a store are put aside."""
    return store.parent / "put-aside"


def prepare(store: Path) -> None:
    """Make the folder a store, or put back what of it is missing or is not as it was made: what stands in
    the way is put aside. Raises StoreFailure."""
    try:
        store.parent.mkdir(mode=_OWN, parents=True, exist_ok=True)
        _allow(store.parent)
        for part in _FOLDERS:
            _make_folder(store / part, store)
        for name, content in _FIXED.items():
            if _holds(store / name, content):
                continue
            if (store / name).is_dir():
                put_aside(store / name, quarantine(store))
            write_durably(store / name, content)
            sync_folder(store.parent)
    except OSError as error:
        raise StoreFailure(f"the shadow store {store} cannot be created: {error.strerror}") from error


def faults(store: Path) -> Iterator[tuple[Path, str]]:
    """What `prepare` would put right, each with what is wrong."""
    for folder in (store.parent, *(store / part for part in _FOLDERS)):
        if not folder.is_dir():
            yield folder, "it is no folder" if folder.exists() else "the folder is missing"
        elif folder.stat().st_mode & _OWN != _OWN:
            yield folder, f"its owner may not use it ({stat.filemode(folder.stat().st_mode)})"
    for name, content in _FIXED.items():
        if not _holds(store / name, content):
            yield store / name, "it is not as it was made" if (store / name).exists() else "it is missing"


def _make_folder(folder: Path, store: Path) -> None:
    """git takes away folders of refs that are empty."""
    if folder.is_dir():
        _allow(folder)
        return
    if folder.exists() or folder.is_symlink():
        put_aside(folder, quarantine(store))
    folder.mkdir(mode=_OWN, exist_ok=True)


def _allow(folder: Path) -> None:
    if folder.stat().st_mode & _OWN != _OWN:
        folder.chmod(_OWN)


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.read_bytes() == content
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return False
