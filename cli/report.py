"""The document of a rewind, for programs and for people, and the question before it."""

from __future__ import annotations

import argparse
import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cli.output import one_line as cut_to
from cli.output import path_fields, path_text
from recorder.plain import one_line
from recorder.planning.planned import Plan, Warned
from recorder.rewind import Carried
from recorder.states import PathNote

if TYPE_CHECKING:
    from cli.going_back import Aim
    from cli.output import Console
    from projections.sessions import SessionRow
    from recorder.conversation import Way

EXIT = {"done": 0, "noop": 0, "planned": 0, "refused": 4, "failed": 1, "partial": 6}
VERBS = {
    "rewind": ("Rewound", "Would go back"),
    "undo": ("Went back", "Would go back"),
    "redo": ("Went forward", "Would go forward"),
    "revert": ("Reverted", "Would revert"),
}
"""What is said of what was done, and of what would be."""
INVERSES = {
    "undo-rewind": ("Took back the {}", "Would take back the {}"),
    "redo-rewind": ("Did the {} again, which was", "Would do the {} again, which was"),
}
OTHERS = {"merge": "skip or overwrite", "refuse": "merge, skip or overwrite", "overwrite": "skip"}
"""What else can be done about a conflict, by what was."""
SHOWN = 12
"""Paths of one kind that a person is shown; all are in the JSON."""


class Report:
    """One command's report."""

    def __init__(self, session: SessionRow, aim: Aim, way: Way, warnings: list[Warned]) -> None:
        self._session, self._aim, self._way, self._warnings = session, aim, way, warnings

    @property
    def _undo(self) -> str:
        """The command that takes this one back."""
        return f"recorder rewind --{'redo' if self._aim.verb == 'undo-rewind' else 'undo'}"

    def planned(self, plan: Plan, arguments: argparse.Namespace, console: Console) -> int:
        """A dry run: what would be done, or why it would be refused."""
        status = "refused" if plan.refused else "planned"
        talk = "pending" if self._way.status == "possible" else self._way.status
        planned = Carried(status, plan)
        return self._tell(planned, self._document(planned, talk, self._way.why), arguments, console)

    def carried(self, carried: Carried, arguments: argparse.Namespace, console: Console) -> int:
        self._warnings += _troubles(carried)
        talk, why = self._talk(carried)
        document = self._document(carried, talk, why)
        return self._tell(carried, document, arguments, console)

    def approve(self, plan: Plan, arguments: argparse.Namespace, console: Console) -> bool | None:
        """Ask on a terminal. True: yes; False: no; None: there was nobody to ask, or nothing to ask."""
        if arguments.yes or arguments.json or not console.interactive:
            return None
        if plan.empty and self._way.status != "possible":
            return None
        import questionary

        planned = Carried("planned", plan)
        talk = "pending" if self._way.status == "possible" else self._way.status
        console.show(self._headline(planned))
        for line in self._lines(self._document(planned, talk, self._way.why), planned):
            console.show(line)
        answer = questionary.confirm("Do this?", default=False).unsafe_ask()
        return bool(answer)

    def declined(self, console: Console) -> int:
        console.show("Nothing was changed.")
        return 0

    def _talk(self, carried: Carried) -> tuple[str, str | None]:
        """Status and reason of the conversation."""
        if carried.conversation_failed:
            return "failed", carried.conversation_failed
        if self._way.status != "possible":
            return self._way.status, self._way.why
        moved = carried.status in ("done", "partial") and not carried.gave_up
        return ("done", None) if moved else ("noop", None)

    def _document(self, carried: Carried, talk: str, why: str | None) -> dict[str, Any]:
        one, plan = self._aim.checkpoint, carried.plan
        return {
            "status": carried.status,
            "operation": carried.operation,
            "session": self._session.session,
            "checkpoint": {"number": one.number, "id": one.id} if one else None,
            "place": self._aim.place or None,
            "files": {
                "write": _paths(plan.write),
                "delete": _paths(plan.delete),
                "merge": _paths(plan.merge),
                "keep": _notes((*plan.keep, *carried.kept)),
                "conflict": _notes([PathNote(one.path, one.why) for one in plan.conflict]),
                "unrecovered": _paths([note.path for note in _lost(carried)]),
            },
            "conversation": {
                "status": talk,
                "prompt": self._aim.text,
                "resume": self._way.resume if talk in ("done", "pending", "unavailable") else None,
                "why": why,
            },
            "warnings": [{"code": one.code, "message": one.message} for one in self._warnings],
            "failed": _notes(carried.failed),
            "undo": self._undo if carried.operation or carried.status == "planned" else None,
        } | _names_in_bytes(plan)

    def _tell(
        self, carried: Carried, document: dict[str, Any], arguments: argparse.Namespace, console: Console
    ) -> int:
        if carried.status == "refused":
            console.note(f"recorder: {_refusal(carried.plan, arguments.on_conflict)}")
        if arguments.json:
            console.json(document)
        else:
            console.show(self._headline(carried))
            for line in self._lines(document, carried):
                console.show(line)
            if carried.status in ("done", "partial") and carried.operation and not carried.gave_up:
                console.show(f"Take it back with: {self._undo}")
        return EXIT[carried.status]

    def _headline(self, carried: Carried) -> str:
        done, would = (
            words.format(self._aim.subject) + self._where() for words in (VERBS | INVERSES)[self._aim.verb]
        )
        if carried.status == "partial":
            return _in_part(carried, done)
        return {
            "done": f"{done}.",
            "noop": "Nothing to do: it is so already.",
            "planned": f"{would}:",
            "refused": "Refused:",
            "failed": "It failed; everything is as before.",
        }[carried.status]

    def _where(self) -> str:
        one = self._aim.checkpoint
        if one is None:
            word = " to the end of" if self._aim.verb == "redo" else " in"
            return f"{word} session {self._session.session}"
        if self._aim.verb in INVERSES and self._aim.subject == "revert":
            return f" of prompt {one.number} of session {self._session.session}"
        text = cut_to(self._aim.text, 40)
        if self._aim.place:
            return f" to {self._aim.place} of session {self._session.session}: “{text}”"
        word = "" if self._aim.verb == "revert" else " to before"
        return f"{word} prompt {one.number} of session {self._session.session}: “{text}”"

    def _lines(self, document: dict[str, Any], carried: Carried) -> list[str]:
        files, plan = document["files"], carried.plan
        lines = _listed("put back", files["write"]) + _listed("remove", files["delete"])
        lines += _listed("merge", [f"{path} (what was changed in it since stays)" for path in files["merge"]])
        lines += _listed("keep", [_with_reason(one) for one in files["keep"]])
        lines += _listed("conflict", [_with_reason(one) for one in files["conflict"]])
        lines += _listed("not recovered", [_with_reason(one) for one in _notes(_lost(carried))])
        lines += _listed("failed", [_with_reason(one) for one in document["failed"]])
        if plan.by_git:
            lines.append(f"  {plan.by_git} path{'s' if plan.by_git != 1 else ''} that git changed since stay")
        lines += [f"  warning: {one_line(one['message'])}" for one in document["warnings"]]
        return lines + self._conversation_lines(document["conversation"])

    def _conversation_lines(self, talk: dict[str, Any]) -> list[str]:
        went = "taken back" if self._aim.verb in ("rewind", "undo") else "moved"
        if talk["status"] == "done":
            return [
                f"  conversation: {went} too" + (f"; go on with: {talk['resume']}" if talk["resume"] else "")
            ]
        if talk["status"] == "pending":
            return [f"  conversation: would be {went} too"]
        if talk["status"] in ("unavailable", "failed"):
            copy = f"; or go on in a copy: {talk['resume']}" if talk["resume"] else ""
            return [f"  conversation: not {went}: {talk['why']}{copy}"]
        return []


def _in_part(carried: Carried, done: str) -> str:
    if carried.gave_up:
        return "It failed, and not everything could be put back as it was:"
    if carried.operation is None:
        return "Nothing could be put back:"
    return f"{done}, but not all of it:"


def _troubles(carried: Carried) -> list[Warned]:
    """What the recorder's own home would not take."""
    if carried.unrecorded:
        back = "it was taken back at once" + (", but not all of it" if carried.status == "partial" else "")
        return [Warned("unrecorded", f"it could not be recorded, so {back}: {carried.unrecorded}")]
    if carried.uncaptured and carried.status in ("done", "partial"):
        why = f"{carried.uncaptured}; the next command makes up for it"
        return [Warned("uncaptured", f"the state after it could not be captured or shown yet: {why}")]
    return []


def _refusal(plan: Plan, on_conflict: str) -> str:
    first = [f"{path_text(one.path)} ({one.why})" for one in plan.conflict[:3]]
    more = f" and {len(plan.conflict) - 3} more" if len(plan.conflict) > 3 else ""
    return (
        f"nothing was changed: {', '.join(first)}{more}; see --on-conflict {OTHERS[on_conflict]}, or --path"
    )


def _lost(carried: Carried) -> tuple[PathNote, ...]:
    """What cannot be brought back: by what is recorded, and by what the disk refused."""
    return carried.plan.unrecovered + carried.unrecovered


def _with_reason(one: dict[str, str]) -> str:
    return f"{one['path']} ({one['why']})"


def _listed(title: str, entries: list[str]) -> list[str]:
    shown = [f"  {title:<13} {path_text(entry)}" for entry in entries[:SHOWN]]
    more = len(entries) - SHOWN
    return shown + ([f"  {title:<13} … and {more} more"] if more > 0 else [])


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def _paths(paths: Iterable[bytes]) -> list[str]:
    return [_text(path) for path in paths]


def _notes(notes: Iterable[PathNote]) -> list[dict[str, str]]:
    return [{**path_fields(note.path), "why": note.why} for note in notes]


def _names_in_bytes(plan: Plan) -> dict[str, dict[str, str]]:
    """The names of the plan that are not UTF-8, in base64, by what the lists show for them."""
    odd = {}
    for step in plan.steps:
        try:
            step.path.decode("utf-8")
        except UnicodeDecodeError:
            odd[_text(step.path)] = base64.b64encode(step.path).decode()
    return {"path_bytes": odd} if odd else {}
