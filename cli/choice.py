"""Which session and which checkpoint a person means (CLI.md, "Naming things")."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from projections import changes, checkpoints, conversation
from projections.checkpoints import Checkpoint
from projections.sessions import SessionRow, sessions
from recorder.errors import NotFound, Refused, UsageProblem

ENVIRONMENT = ("PI_SESSION_ID", "CLAUDE_CODE_SESSION_ID")
BUSY_NS = 3600 * 10**9

STEP = re.compile(r"#?(?P<number>\d{1,9})(?=[.+])(?:\.(?P<step>\d{1,9}))?(?P<after>\+)?")
"""`3.2` before step 2 of prompt 3, `3.2+` after it, `3+` after the run of prompt 3."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def choose_session(
    connection: sqlite3.Connection,
    named: str | None,
    cwd: bytes,
    environment: Mapping[str, str],
    *,
    changing_now: int | None = None,
) -> SessionRow:
    """The session that is named, or the one that the surroundings mean.

    `changing_now` (ns) is set by commands that change something: with no session named and two active in
    that tree within the last hour they refuse. Raises NotFound, UsageProblem (ambiguous), Refused.
    """
    known = sessions(connection)
    if not known:
        raise NotFound("nothing is recorded yet; run `recorder watch` beside your agent", code="no_session")
    if named == "latest":
        return known[0]
    if named:
        return _by_name(known, named)
    for variable in ENVIRONMENT:
        from_environment = [one for one in known if one.session == environment.get(variable)]
        if from_environment:
            return from_environment[0]
    here = [one for one in known if contains(one, cwd)]
    if not here:
        raise NotFound(
            f"no recorded session belongs to {os.fsdecode(cwd)}; name one with --session, "
            "or see `recorder sessions --all`",
            code="no_session",
        )
    if changing_now is not None:
        _refuse_two_active(here, changing_now)
    return here[0]


def _by_name(known: list[SessionRow], named: str) -> SessionRow:
    exact = [one for one in known if one.session == named]
    found = exact or [one for one in known if one.session.startswith(named)]
    if not found:
        raise NotFound(f"no session {named!r} is recorded; see `recorder sessions --all`", code="no_session")
    if len(found) > 1:
        raise UsageProblem(
            f"{named!r} is the beginning of several session ids: {', '.join(one.session for one in found)}",
            code="ambiguous",
            candidates=[one.session for one in found],
        )
    return found[0]


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """The shortest beginning of each id, of 8 or more characters, that means it alone."""
    ordered = sorted(set(ids))
    short = {}
    for index, one in enumerate(ordered):
        neighbours = ordered[max(index - 1, 0) : index] + ordered[index + 1 : index + 2]
        shared = max((_shared(one, other) for other in neighbours), default=0)
        short[one] = one[: max(shared + 1, 8)]
    return short


def _shared(one: str, other: str) -> int:
    """How many characters two ids begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def contains(session: SessionRow, cwd: bytes) -> bool:
    """Whether a session's work tree (its folder, before the first capture) contains a folder."""
    root = session.tree_path or (os.fsencode(session.cwd) if session.cwd else None)
    return root is not None and (cwd == root or cwd.startswith(root.rstrip(b"/") + b"/"))


def _refuse_two_active(here: list[SessionRow], now: int) -> None:
    newest = here[0]
    active = [one for one in here if one.tree == newest.tree and now - one.last_at < BUSY_NS]
    if len(active) > 1:
        listed = ", ".join(f"{one.session} ({one.agent})" for one in active)
        raise Refused(
            f"several sessions were active in this folder within the last hour: {listed}; "
            "name one with --session",
            code="which_session",
            candidates=[one.session for one in active],
        )


def choose_checkpoint(
    connection: sqlite3.Connection, session: SessionRow | None, named: str, *, now: datetime
) -> Checkpoint:
    """The checkpoint that a word means, tried in CLI.md's order: relative, number, label, id, time.

    Without a session only an id can be found. Raises NotFound or UsageProblem (ambiguous).
    """
    named = named.strip()
    if session is not None:
        found = (
            _relative(connection, session, named)
            or _numbered(connection, session, named)
            or _labelled(connection, session, named)
        )
        if found:
            return found
    found = _by_id(connection, named) or (
        _at_time(connection, session, named, now) if session is not None else None
    )
    if found is None and (step := STEP.fullmatch(named)):
        raise UsageProblem(f"{named} names a step; this takes a whole checkpoint, such as {step['number']}")
    if found is None:
        where = f" in session {session.session}" if session else ""
        raise NotFound(
            f"no checkpoint {named!r}{where}; see `recorder checkpoints --all-branches`", code="no_checkpoint"
        )
    return found


def reads_as_other_form(label: str, now: datetime) -> bool:
    """Whether a label would be taken for a number, a step, an id, a time or a relative name."""
    return (
        label == "latest"
        or STEP.fullmatch(label) is not None
        or bool(re.fullmatch(r"@-\d+|#?\d+|c[0-9a-f]{3,12}", label))
        or parse_time(label, now) is not None
    )


def _relative(connection: sqlite3.Connection, session: SessionRow, named: str) -> Checkpoint | None:
    match = re.fullmatch(r"latest|@-(\d+)", named)
    if not match:
        return None
    back = int(match[1] or 0)
    active = conversation.active_prompts(connection, session.stream)
    if not active:
        raise NotFound(no_active_prompt(connection, session), code="no_checkpoint")
    if back >= len(active):
        raise NotFound(
            f"there is no {named}: prompts on the active branch: {len(active)}; "
            "see “recorder checkpoints --all-branches”",
            code="no_checkpoint",
        )
    return checkpoints.checkpoint_of_entry(connection, session.stream, active[-1 - back].entry)


def no_active_prompt(connection: sqlite3.Connection, session: SessionRow) -> str:
    """Why the active branch of a session has no prompt, and where they are."""
    if not conversation.prompts_of(connection, session.stream):
        return f"session {session.session} has no prompt yet"
    return (
        f"the prompts of session {session.session} are on a branch that was left; see “recorder checkpoints "
        "--all-branches”, or go forward again with “recorder redo”"
    )


def _numbered(connection: sqlite3.Connection, session: SessionRow, named: str) -> Checkpoint | None:
    if not re.fullmatch(r"#?\d{1,9}", named):
        return None
    number = int(named.lstrip("#"))
    return next(
        (one for one in checkpoints.checkpoints_of(connection, session.stream) if one.number == number), None
    )


def _labelled(connection: sqlite3.Connection, session: SessionRow, named: str) -> Checkpoint | None:
    return next(
        (one for one in checkpoints.checkpoints_of(connection, session.stream) if one.label == named), None
    )


def _by_id(connection: sqlite3.Connection, named: str) -> Checkpoint | None:
    if not re.fullmatch(r"c[0-9a-f]{3,12}", named):
        return None
    rows = connection.execute("SELECT id FROM checkpoints WHERE id GLOB ? LIMIT 9", (named + "*",)).fetchall()
    if len(rows) > 1:
        raise UsageProblem(
            f"{named!r} is the beginning of several checkpoint ids: {', '.join(row['id'] for row in rows)}",
            code="ambiguous",
            candidates=[row["id"] for row in rows],
        )
    return checkpoints.checkpoint(connection, rows[0]["id"]) if rows else None


def _at_time(
    connection: sqlite3.Connection, session: SessionRow, named: str, now: datetime
) -> Checkpoint | None:
    moment = parse_time(named, now)
    if moment is None:
        return None
    limit = (moment - _EPOCH) // _MICROSECOND * 1000
    before = [one for one in checkpoints.checkpoints_of(connection, session.stream) if one.given_at <= limit]
    if not before:
        raise NotFound(
            f"no checkpoint of session {session.session} is that old: {named}", code="no_checkpoint"
        )
    return max(before, key=lambda one: (one.given_at, one.number))


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str, now: datetime) -> datetime | None:
    """`2h ago` (s, m, h, d, w), or ISO 8601 (local where it names no zone); None where it is neither."""
    match = re.fullmatch(r"(\d{1,6})\s*([smhdw])\w*\s+ago", text)
    if match:
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    if not re.match(r"\d{4}-\d\d", text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.astimezone(now.tzinfo or UTC)


def tree_stream_of(connection: sqlite3.Connection, session: SessionRow) -> str:
    """The work tree's stream of a session. Raises NotFound where nothing of it was captured."""
    tree = changes.tree_of(connection, session.stream)
    if tree is None:
        raise NotFound(
            f"no files of session {session.session} were captured: it was not watched while it ran",
            code="not_captured",
        )
    return tree
