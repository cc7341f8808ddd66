"""What a git tree cannot hold, one note per folder beside it: full modes, and the names that were left out
or could not be read, with the reasons.

A note is the MessagePack array of `Notes`; the same folder always gives the same bytes.
"""

from __future__ import annotations

import msgspec

from recorder.errors import IntegrityFailure
from recorder.states import GitPosition

USUAL_FOLDER = 0o755
USUAL_FILE = 0o644
USUAL_PROGRAM = 0o755


class Notes(msgspec.Struct, array_like=True):
    """`mode` is the folder's own, `modes` those of its files that the git mode does not tell. `skipped`
    and `unknown` are names by reason."""

    mode: int = USUAL_FOLDER
    modes: dict[bytes, int] = {}
    skipped: dict[str, list[bytes]] = {}
    unknown: dict[str, list[bytes]] = {}

    def __bool__(self) -> bool:
        return self.mode != USUAL_FOLDER or bool(self.modes or self.skipped or self.unknown)


class Outside(msgspec.Struct, array_like=True, frozen=True):
    """A file that a tool named and that the tree's own files do not hold: relative to the work tree where
    it lies in it (an ignored one), else absolute."""

    path: bytes
    kind: str
    mode: int
    oid: bytes
    why: str


class Facts(msgspec.Struct, frozen=True):
    """What a capture's commit message says, as JSON."""

    kind: str
    head: str | None = None
    branch: str | None = None
    operation: str | None = None
    repository: bool = False
    stash: str | None = None
    merging: str | None = None
    reflog: int | None = None

    @property
    def position(self) -> GitPosition | None:
        """Where the project's repository stood; None where there was none."""
        if not self.repository:
            return None
        return GitPosition(**{name: getattr(self, name) for name in GitPosition.__struct_fields__})


def facts_of(kind: str, position: GitPosition | None) -> Facts:
    """What is said of a capture of a work tree of this kind."""
    if position is None:
        return Facts(kind)
    return Facts(kind, repository=True, **msgspec.structs.asdict(position))


_notes = msgspec.msgpack.Decoder(Notes)
_outside = msgspec.msgpack.Decoder(list[Outside])


def git_mode(mode: int) -> int:
    """The mode that a git tree gives a regular file."""
    return 0o100755 if mode & 0o100 else 0o100644


def usual_mode(git: int) -> int:
    """The permission bits that a file of this git mode has where no note says otherwise."""
    return USUAL_PROGRAM if git & 0o100 else USUAL_FILE


def encode(note: Notes | list[Outside]) -> bytes:
    return msgspec.msgpack.encode(note)


def decode_notes(content: bytes) -> Notes:
    """Raises IntegrityFailure for bytes that are no note."""
    try:
        return _notes.decode(content)
    except msgspec.DecodeError as error:
        raise IntegrityFailure(f"a manifest in the shadow store is damaged: {error}") from error


def decode_outside(content: bytes) -> list[Outside]:
    """Raises IntegrityFailure for bytes that are no list of files outside."""
    try:
        return _outside.decode(content)
    except msgspec.DecodeError as error:
        raise IntegrityFailure(f"a manifest in the shadow store is damaged: {error}") from error
