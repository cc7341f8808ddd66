"""What rewind, undo, redo and revert share: from what is asked, by a plan, to the report."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

import msgspec

from cli.ground import Seen, TreeGround
from cli.report import Report
from projections import conversation
from projections.capture import known_tree
from projections.changes import root_of
from projections.running import under_way
from projections.sessions import SessionRow
from recorder.conversation import Way, find_way, take, take_again_back
from recorder.errors import NotFound, RecorderError, Refused
from recorder.history import place_of
from recorder.planning.planned import Options, Plan, Warned, moved
from recorder.rewind import BROKEN, Carried, Undertaking, carry_out, in_words
from recorder.sources import source_of

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.output import Console
    from projections.checkpoints import Checkpoint
    from recorder.sources.base import Source
    from recorder.states import GitPosition
    from recorder.worktree import WorkTree


class Aim(NamedTuple):
    """What a command wants: a plan from what is seen, and where the conversation is to go on.

    `keep` is the entry after which the conversation goes on, `prompt` the entry that would come next
    (None: the end of a path). `then` is where git stood at the target.
    """

    verb: str
    tree: str
    checkpoint: Checkpoint | None
    make: Callable[[Seen, Options], Plan]
    keep: str | None
    prompt: str | None
    position_before: str | None
    position_after: str | None
    text: str
    inverts: str | None = None
    subject: str = ""
    """The verb of the operation that is taken back, or done again."""
    then: GitPosition | None = None
    conversation_moves: bool = True
    then_whole: bool = False
    """Whether the state of a checkpoint is wanted, not the inverse or the revert of something."""
    place: str = ""
    """The state within a run that is wanted, for people; empty for that before a prompt."""
    stays: str = ""
    """Why the conversation cannot go there, whatever the agent allows; empty where it could."""


class Talk(Protocol):
    """The conversation's part of one command: also what `recorder.rewind.Conversation` is."""

    way: Way

    @property
    def possible(self) -> bool: ...

    def take(self) -> str | None: ...

    def take_back(self, leaf: str | None) -> str | None: ...


class _Talk:
    """That of a session which no agent that can be asked has open."""

    def __init__(self, way: Way, source: Source, log: Path, session: SessionRow) -> None:
        self.way = way
        self._source, self._log, self._session = source, log, session.session
        self._cwd = session.cwd

    @property
    def possible(self) -> bool:
        return self.way.status == "possible"

    def take(self) -> str | None:
        return take(self.way, self._source, self._log, self._session)

    def take_back(self, leaf: str | None) -> str | None:
        line = self.way.line or b""
        return take_again_back(self._source, self._log, self._session, line=line, leaf=leaf, cwd=self._cwd)


def go(
    arguments: argparse.Namespace, recording: Recording, session: SessionRow, aim: Aim, console: Console
) -> int:
    """Plan, ask where a person can answer, carry out, report; returns the exit code."""
    from cli.files import stored_files
    from cli.left_out import left_out_warnings
    from cli.paths import check_paths
    from cli.progress import writing
    from recorder.worktree import still_there

    if not aim.tree:
        raise Refused(
            f"no files of session {session.session} were captured: it was not watched while it ran",
            code="not_captured",
        )
    work_tree = known_tree(recording.views, aim.tree)
    still_there(work_tree)
    options = _options(arguments, work_tree)
    what = _what(arguments)
    with stored_files(recording, aim.tree) as tree:
        ground = TreeGround(
            recording,
            tree,
            work_tree,
            session.stream,
            lambda seen: aim.make(seen, options) if what != "conversation" else Plan(),
        )
        target = aim.checkpoint.commit if aim.checkpoint and aim.checkpoint.restorable else None
        check_paths(recording, tree, work_tree, options.paths, [target, ground.last_commit()])
        plan = ground.plan()
        talk = _talk(arguments, recording, session, aim)
        warnings = _warnings(recording, session, aim, plan, ground.git)
        if aim.then_whole and what != "conversation":
            warnings += left_out_warnings(tree, work_tree, target, ground.last_commit(), options.paths)
        if what != "conversation":
            warnings += _beyond(recording, session, aim, options)
        report = Report(session, aim, talk.way, warnings)
        _refuse_while_running(arguments, recording, session, aim, plan)
        if arguments.dry_run:
            return report.planned(plan, arguments, console)
        if plan.refused:
            return report.carried(Carried("refused", plan), arguments, console)
        approved = report.approve(plan, arguments, console)
        if approved is False:
            return report.declined(console)
        with writing(plan, console) as watched:
            carried = carry_out(
                recording.home,
                recording.log,
                tree,
                work_tree,
                ground,
                _undertaking(recording, session, aim, talk, partial=bool(options.paths)),
                talk,
                approved=plan if approved else None,
                **watched,
            )
    if talk.possible:
        carried = _shown(recording, session, arguments, carried)
    return report.carried(carried, arguments, console)


def _shown(
    recording: Recording, session: SessionRow, arguments: argparse.Namespace, carried: Carried
) -> Carried:
    """With the moved conversation in the views; what was done stays so where that fails."""
    from cli.catching_up import catch_up_log

    try:
        catch_up_log(recording, session, arguments=arguments)
    except BROKEN as error:
        return msgspec.structs.replace(carried, uncaptured=carried.uncaptured or in_words(error))
    return carried


def _what(arguments: argparse.Namespace) -> str | None:
    """`files`, `conversation`, `both`, or None for both where the agent allows it. Some files alone are no
    reason to move the conversation."""
    return str(arguments.what) if arguments.what else "files" if arguments.path else None


def _options(arguments: argparse.Namespace, work_tree: WorkTree) -> Options:
    from cli.paths import relative_to_tree

    paths = tuple(relative_to_tree(path, work_tree.path, os.getcwdb()) for path in arguments.path or ())
    return Options(on_conflict=arguments.on_conflict, new_files=arguments.new_files, paths=paths)


def _talk(arguments: argparse.Namespace, recording: Recording, session: SessionRow, aim: Aim) -> Talk:
    """Raises Refused where the conversation was asked for by name and cannot go."""
    from cli.live import LiveTalk, live

    source, log = source_of(session.agent), Path(os.fsdecode(session.log))
    stands = conversation.stands_at(recording.views.connection, session.stream, aim.keep)
    what = _what(arguments)
    if what == "files" or not aim.conversation_moves or (stands and not aim.stays):
        return _Talk(Way("noop"), source, log, session)
    home = recording.home.folder
    agent = live(home, session.session, looks=True)
    if aim.stays:
        way = Way("unavailable", why=aim.stays)
    elif agent is not None and agent.why_not is None:
        return LiveTalk(home, session.session, aim.keep, aim.prompt)
    elif agent is not None:
        way = Way("unavailable", why=agent.why_not)
    else:
        way = find_way(source, log, session.session, keep=aim.keep, prompt=aim.prompt or "", cwd=session.cwd)
    if way.status == "unavailable" and what in ("conversation", "both"):
        raise Refused(
            f"the conversation cannot be taken back: {way.why}"
            + (f"; or go on in a copy: {way.resume}" if way.resume else ""),
            code="conversation_unavailable",
            resume=way.resume,
        )
    return _Talk(way, source, log, session)


def _undertaking(
    recording: Recording, session: SessionRow, aim: Aim, talk: Talk, *, partial: bool
) -> Undertaking:
    """Where only some files go back (`partial`), the session stands where it stood."""
    return Undertaking(
        verb=aim.verb,
        session=UUID(session.stream),
        checkpoint=aim.checkpoint.id if aim.checkpoint and not aim.place else None,
        inverts=aim.inverts,
        position_before=aim.position_before,
        position_after=aim.position_before if partial else aim.position_after,
        leaf_before=conversation.leaf_of(recording.views.connection, session.stream),
        leaf_after=aim.keep if aim.conversation_moves and not aim.stays else None,
        line=talk.way.line or b"",
    )


def _warnings(
    recording: Recording, session: SessionRow, aim: Aim, plan: Plan, git_now: GitPosition | None
) -> list[Warned]:
    found = [*plan.warnings, *moved(aim.then, git_now)]
    if aim.checkpoint is not None and aim.checkpoint.state == "partial" and aim.inverts is None:
        code = "late_capture" if aim.checkpoint.late else "partial"
        found.append(Warned(code, aim.checkpoint.why or "not every file is known"))
    for other in _others(recording, session, aim.tree, plan):
        if why := _running(recording, other):
            found.append(Warned("other_session_running", f"session {other.session} is running here: {why}"))
    return found


def _beyond(recording: Recording, session: SessionRow, aim: Aim, options: Options) -> list[Warned]:
    """Warnings for what is to be taken back and lies in other work trees."""
    from cli.beyond import beyond_warnings, changes_beyond, of_runs, runs_from

    one, stream = aim.checkpoint, session.stream
    if one is None or not (aim.then_whole or aim.verb == "revert"):
        return []
    reverted = aim.verb == "revert"
    runs = {one.entry} if reverted else runs_from(recording.views.connection, stream, one.entry)
    return beyond_warnings(of_runs(changes_beyond(recording, stream, one), stream, runs), options.paths)


def _others(recording: Recording, session: SessionRow, tree: str, plan: Plan) -> list[SessionRow]:
    """The other sessions that work where this one does, or where the plan's files lie."""
    from projections.neighbours import trees_at, trees_overlapping
    from projections.sessions import sessions

    connection = recording.views.connection
    root = root_of(connection, tree)
    outside = {step.path for step in plan.steps if step.path.startswith(b"/")}
    trees = {tree, *trees_overlapping(connection, root), *trees_at(connection, outside)}
    return [one for one in sessions(connection) if one.tree in trees and one.stream != session.stream]


def _running(recording: Recording, session: SessionRow) -> str | None:
    from cli.live import live

    agent = live(recording.home.folder, session.session, looks=True)
    if agent is not None:
        return "its agent is at work" if agent.busy else None
    return under_way(
        recording.views.connection,
        session.stream,
        session.session,
        session.log,
        source_of(session.agent),
        time.time_ns(),
    )


def _refuse_while_running(
    arguments: argparse.Namespace, recording: Recording, session: SessionRow, aim: Aim, plan: Plan
) -> None:
    if arguments.while_running:
        return
    if why := _running(recording, session):
        raise Refused(
            f"session {session.session} is running: {why}; end it, or say --while-running", code="running"
        )
    root = root_of(recording.views.connection, aim.tree)
    planned = {place_of(root, step.path) for step in plan.steps}
    for other in _others(recording, session, aim.tree, plan):
        if planned & _touched_by_run(recording, other) and _running(recording, other):
            raise Refused(
                f"session {other.session} is running and has touched files of this plan; end it, "
                "or say --while-running",
                code="other_session_running",
            )


def _touched_by_run(recording: Recording, session: SessionRow) -> set[bytes]:
    """The places at which something changed in a session's work tree since its last run began."""
    rows = recording.views.connection.execute(
        "SELECT DISTINCT place FROM transitions WHERE tree = ? AND until >="
        " (SELECT began_at FROM runs WHERE stream = ? ORDER BY position DESC LIMIT 1)",
        (session.tree, session.stream),
    )
    return {row["place"] for row in rows}


def captured_checkpoint(one: Checkpoint) -> Checkpoint:
    """A checkpoint whose files can be gone back to. Raises Refused with the reason."""
    if not one.restorable or one.tree is None or one.capture_position is None:
        raise Refused(
            f"the files from before prompt {one.number} cannot be brought back: {one.why or one.state}",
            code=one.state,
        )
    return one


def text_of(recording: Recording, stream: str, entry: str) -> str:
    """The full text of a prompt."""
    row = recording.views.connection.execute(
        "SELECT text, excerpt FROM prompts WHERE stream = ? AND entry = ?", (stream, entry)
    ).fetchone()
    if row is None:
        raise NotFound(f"no prompt {entry} is recorded", code="no_prompt")
    try:
        return recording.log.body(row["text"]).decode("utf-8", "replace")
    except RecorderError:
        return str(row["excerpt"])
