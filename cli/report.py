"""The document of a rewind, for programs and for people, and the question before it."""

from __future__ import annotations

import argparse
import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from recorder.planned import Plan, Warned
from recorder.states import PathNote

if TYPE_CHECKING:
    from cli.going_back import Aim
    from cli.output import Console
    from projections.sessions import SessionRow
    from recorder.conversation import Way
    from recorder.rewind import Carried

EXIT = {"done": 0, "noop": 0, "planned": 0, "refused": 4, "failed": 1, "partial": 6}
VERBS = {"rewind": "Rewound", "undo": "Undone", "redo": "Redone", "revert": "Reverted"}
INVERSES = {"undo-rewind": "Took back the {}", "redo-rewind": "Did the {} again, which was"}
SHOWN = 12
"""Paths of one kind that a person is shown; all are in the JSON."""


class Report:
    """One command's report."""

    def __init__(
        self, session: SessionRow, aim: Aim, what: str | None, way: Way, warnings: list[Warned]
    ) -> None:
        self._session, self._aim, self._what, self._way = session, aim, what, way
        self._warnings = warnings

    def planned(self, plan: Plan, arguments: argparse.Namespace, console: Console) -> int:
        """A dry run: what would be done, or why it would be refused."""
        status = "refused" if plan.refused else "planned"
        talk = "pending" if self._way.status == "possible" else self._way.status
        document = self._document(status, plan, None, talk, self._way.why)
        return self._tell(status, document, plan, arguments, console)

    def carried(self, carried: Carried, arguments: argparse.Namespace, console: Console) -> int:
        talk, why = self._talk(carried)
        document = self._document(carried.status, carried.plan, carried.operation, talk, why)
        files = document["files"]
        files["keep"] += _notes(carried.kept)
        files["unrecovered"] += _paths([note.path for note in carried.unrecovered])
        document["failed"] = _notes(carried.failed)
        return self._tell(carried.status, document, carried.plan, arguments, console)

    def approve(self, plan: Plan, arguments: argparse.Namespace, console: Console) -> bool | None:
        """Ask on a terminal. True: yes; False: no; None: there was nobody to ask, or nothing to ask."""
        if arguments.yes or arguments.json or not console.interactive:
            return None
        if plan.empty and self._way.status != "possible":
            return None
        import questionary

        for line in self._lines(self._document("planned", plan, None, self._way.status, self._way.why), plan):
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
        moved = carried.status in ("done", "partial") and not carried.failed
        return ("done", None) if moved else ("noop", None)

    def _document(
        self, status: str, plan: Plan, operation: str | None, talk: str, why: str | None
    ) -> dict[str, Any]:
        one = self._aim.checkpoint
        return {
            "status": status,
            "operation": operation,
            "session": self._session.session,
            "checkpoint": {"number": one.number, "id": one.id} if one else None,
            "files": {
                "write": _paths(plan.write),
                "delete": _paths(plan.delete),
                "merge": _paths(plan.merge),
                "keep": _notes(plan.keep),
                "conflict": _notes([PathNote(one.path, one.why) for one in plan.conflict]),
                "unrecovered": _paths([note.path for note in plan.unrecovered]),
            },
            "conversation": {
                "status": talk,
                "prompt": self._aim.text,
                "resume": self._way.resume if talk in ("done", "pending", "unavailable") else None,
                "why": why,
            },
            "warnings": [{"code": one.code, "message": one.message} for one in self._warnings],
            "undo": "recorder rewind --undo",
        } | _names_in_bytes(plan)

    def _tell(
        self,
        status: str,
        document: dict[str, Any],
        plan: Plan,
        arguments: argparse.Namespace,
        console: Console,
    ) -> int:
        if status == "refused":
            console.note(f"recorder: {self._refusal(plan)}")
        if arguments.json:
            console.json(document)
        else:
            console.show(self._headline(status))
            for line in self._lines(document, plan):
                console.show(line)
            if status in ("done", "partial") and document["operation"]:
                console.show("Take it back with: recorder rewind --undo")
        return EXIT[status]

    def _refusal(self, plan: Plan) -> str:
        names = ", ".join(one.path.decode(errors="replace") for one in plan.conflict[:3])
        more = f" and {len(plan.conflict) - 3} more" if len(plan.conflict) > 3 else ""
        return (
            f"nothing was changed, because somebody else changed {names}{more} too; "
            "see --on-conflict skip or overwrite, or --path"
        )

    def _headline(self, status: str) -> str:
        where = self._where()
        return {
            "done": f"{self._verb()}{where}.",
            "noop": "Nothing to do: it is so already.",
            "planned": f"This would be done{where}:",
            "refused": "Refused:",
            "failed": "It failed; everything is as before.",
            "partial": f"{self._verb()}{where}, but not all of it:",
        }[status]

    def _verb(self) -> str:
        verb = self._aim.verb
        return VERBS[verb] if verb in VERBS else INVERSES[verb].format(self._aim.subject)

    def _where(self) -> str:
        one = self._aim.checkpoint
        if one is None:
            return f" in session {self._session.session}"
        from cli.output import one_line

        if self._aim.verb in INVERSES and self._aim.subject == "revert":
            return f" of prompt {one.number} of session {self._session.session}"
        word = " from" if self._aim.verb == "revert" else " to before"
        return (
            f"{word} prompt {one.number} of session {self._session.session}: “{one_line(self._aim.text, 40)}”"
        )

    def _lines(self, document: dict[str, Any], plan: Plan) -> list[str]:
        files = document["files"]
        lines = _listed("put back", files["write"]) + _listed("remove", files["delete"])
        lines += _listed("keep", [f"{one['path']} ({one['why']})" for one in files["keep"]])
        lines += _listed("conflict", [f"{one['path']} ({one['why']})" for one in files["conflict"]])
        lines += _listed("not recovered", files["unrecovered"])
        lines += _listed("failed", [f"{one['path']} ({one['why']})" for one in document.get("failed", [])])
        if plan.by_git:
            lines.append(f"  {plan.by_git} path{'s' if plan.by_git != 1 else ''} that git changed since stay")
        lines += [f"  warning: {one['message']}" for one in document["warnings"]]
        return lines + self._conversation_lines(document["conversation"])

    def _conversation_lines(self, talk: dict[str, Any]) -> list[str]:
        if talk["status"] == "done":
            return [
                "  conversation: taken back too"
                + (f"; go on with: {talk['resume']}" if talk["resume"] else "")
            ]
        if talk["status"] == "pending":
            return ["  conversation: would be taken back too"]
        if talk["status"] in ("unavailable", "failed"):
            copy = f"; or go on in a copy: {talk['resume']}" if talk["resume"] else ""
            return [f"  conversation: not taken back: {talk['why']}{copy}"]
        return []


def _listed(title: str, entries: list[str]) -> list[str]:
    from recorder.plain import plain

    shown = [f"  {title:<13} {plain(entry)}" for entry in entries[:SHOWN]]
    more = len(entries) - SHOWN
    return shown + ([f"  {title:<13} … and {more} more"] if more > 0 else [])


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")


def _paths(paths: Iterable[bytes]) -> list[str]:
    return [_text(path) for path in paths]


def _notes(notes: Iterable[PathNote]) -> list[dict[str, str]]:
    from cli.output import path_fields

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
