"""The aims of the commands that go back: a checkpoint, the end of a path, an operation, one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cli.going_back import Aim, captured_checkpoint, text_of
from cli.ground import Seen
from cli.position import Standing, position_id
from projections import changes, checkpoints
from recorder.history import Operation
from recorder.planning.plan import plan_inverse, plan_revert, plan_rewind, plan_tree
from recorder.planning.planned import Options, Plan, Target

if TYPE_CHECKING:
    import sqlite3

    from cli.context import Recording
    from cli.places import Place
    from projections.checkpoints import Checkpoint
    from projections.sessions import SessionRow
    from recorder.states import PathState


def to_checkpoint(
    recording: Recording,
    session: SessionRow,
    one: Checkpoint,
    at: Standing,
    verb: str,
    scope: str,
    what: str | None,
) -> Aim:
    """To the state just before a prompt. Raises Refused where its files cannot be brought back."""
    connection = recording.views.connection
    if what != "conversation":
        captured_checkpoint(one)
    tree = one.tree or changes.tree_of(connection, session.stream) or ""
    prompt = connection.execute(
        "SELECT entries.parent, prompts.how, prompts.reference_at FROM prompts"
        " JOIN entries USING (stream, entry) WHERE stream = ? AND entry = ?",
        (session.stream, one.entry),
    ).fetchone()
    target = Target(position=one.capture_position or 0, at=prompt["reference_at"])
    then = _states_at(recording, one) if scope == "tree" else None
    return Aim(
        verb=verb,
        tree=tree,
        checkpoint=one,
        make=lambda seen, options: _plan(seen, options, session.stream, target, then),
        keep=prompt["parent"],
        prompt=one.entry,
        position_before=position_id(at, session.stream),
        position_after=one.id,
        text=text_of(recording, session.stream, one.entry),
        then=changes.git_positions(connection, tree).get(one.capture or ""),
        conversation_moves=prompt["how"] != "absorbed",
        then_whole=True,
    )


def to_place(recording: Recording, place: Place, at: Standing, scope: str, what: str | None) -> Aim:
    """To a checkpoint; or to a state within a run, which files alone can go back to: the conversation and
    the session's position stay."""
    aim = to_checkpoint(recording, place.session, place.checkpoint, at, "rewind", scope, what)
    if not place.inside:
        return aim
    one, stream = captured_checkpoint(place.checkpoint), place.session.stream
    target = Target(position=one.capture_position or 0, at=place.captured_at or 0)
    then = _states_at(recording, one) if scope == "tree" else None
    return aim._replace(
        make=lambda seen, options: _plan(seen, options, stream, target, then),
        position_after=aim.position_before,
        place=place.name,
        stays=f"only files go back to {place.name}",
    )


def to_tip(recording: Recording, session: SessionRow, at: Standing) -> Aim:
    """To the end of the path, as it was before the first step back."""
    connection = recording.views.connection
    assert at.first is not None
    target = Target(position=at.first.position - 1, at=at.first.applied_at)
    return Aim(
        verb="redo",
        tree=changes.tree_of(connection, session.stream) or "",
        checkpoint=None,
        make=lambda seen, options: _plan(seen, options, session.stream, target, None),
        keep=at.tip,
        prompt=None,
        position_before=position_id(at, session.stream),
        position_after=None,
        text=text_of(recording, session.stream, at.path[-1].entry) if at.path else "",
    )


def inverse(recording: Recording, operation: Operation, verb: str, subject: str) -> Aim:
    """The inverse of an operation, conversation included where it had moved it. `subject` is the verb of
    the operation that a person thinks of: of the one inverted, or of the one that it had inverted."""
    connection = recording.views.connection
    row = connection.execute(
        "SELECT tree, conversation FROM operations WHERE operation = ?", (operation.operation,)
    ).fetchone()
    one = checkpoints.checkpoint(connection, operation.checkpoint) if operation.checkpoint else None
    return Aim(
        verb=verb,
        tree=row["tree"],
        checkpoint=one,
        make=lambda seen, options: plan_inverse(operation, seen.changes, seen.disk, options=options),
        keep=operation.leaf_before,
        prompt=None,
        position_before=operation.position_after,
        position_after=operation.position_before,
        text=text_of(recording, one.stream, one.entry) if one else "",
        inverts=operation.operation,
        subject=subject,
        conversation_moves=row["conversation"] == "done",
    )


def of_one_run(recording: Recording, session: SessionRow, one: Checkpoint, at: Standing) -> Aim:
    """Only what one prompt's run changed; the conversation stays."""
    captured_checkpoint(one)
    here = position_id(at, session.stream)
    return Aim(
        verb="revert",
        tree=one.tree or "",
        checkpoint=one,
        make=lambda seen, options: plan_revert(
            seen.changes,
            seen.operations,
            seen.disk,
            session=session.stream,
            run=one.entry,
            options=options,
            unseen=seen.unseen,
        ),
        keep=None,
        prompt=None,
        position_before=here,
        position_after=here,
        text=text_of(recording, session.stream, one.entry),
        conversation_moves=False,
    )


def _plan(
    seen: Seen, options: Options, stream: str, target: Target, then: Mapping[bytes, PathState] | None
) -> Plan:
    if then is None:
        return plan_rewind(
            seen.changes,
            seen.operations,
            seen.disk,
            session=stream,
            target=target,
            options=options,
            unseen=seen.unseen,
        )
    return plan_tree(
        then, seen.paths(), seen.changes, seen.operations, seen.disk, target=target, options=options
    )


def _states_at(recording: Recording, one: Checkpoint) -> dict[bytes, PathState]:
    """Every path of a checkpoint's capture, skipped and unknown ones too."""
    from cli.files import commit_of, stored_files
    from recorder.states import SKIPPED, UNKNOWN

    assert one.tree is not None
    with stored_files(recording, one.tree) as files:
        skipped, unknown = files.notes(commit_of(one))
        states = dict(files.walk(commit_of(one)))
    states |= {note.path: SKIPPED for note in skipped}
    return states | {note.path: UNKNOWN for note in unknown}


def session_of(connection: sqlite3.Connection, stream: str) -> SessionRow:
    """The session with this stream."""
    from projections.sessions import sessions

    return next(one for one in sessions(connection) if one.stream == stream)
