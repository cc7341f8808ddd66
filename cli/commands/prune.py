"""`recorder prune`: run the retention now."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from cli.options import with_json

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "prune",
        description="Retire the checkpoints that the retention no longer keeps, with a reason for each.",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be retired, change nothing")
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording

    with existing_recording(arguments) as recording:
        document, problems = run_retention(recording, dry_run=arguments.dry_run)
    for problem in problems:
        console.note(f"recorder: {problem}")
    if arguments.json:
        console.json(document)
    else:
        _show(document, arguments.dry_run, console)
    return 6 if problems else 0


def run_retention(recording: Recording, *, dry_run: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The document of `prune`, and a sentence for each store that could not be cleaned."""
    from cli.policy import policy_of, settings
    from projections.prune import prune
    from projections.sessions import sessions
    from recorder.retention import Limits, Verdict

    now = settings()
    pruned = prune(
        recording.home,
        recording.log,
        recording.views,
        Limits(days=now.retention_days, checkpoints=now.max_checkpoints),
        time.time_ns(),
        policy_of,
        dry_run=dry_run,
    )
    names = {one.stream: one.session for one in sessions(recording.views.connection)}

    def item(verdict: Verdict) -> dict[str, object]:
        one = verdict.candidate
        return {"session": names[one.session], "number": one.number, "reason": verdict.reason}

    document = {
        "retired": [item(one) for one in pruned.verdicts if one.retire],
        "kept": [item(one) for one in pruned.verdicts if not one.retire],
        "freed_bytes": pruned.freed_bytes,
    }
    return document, pruned.problems


def _show(document: dict[str, Any], dry_run: bool, console: Console) -> None:
    from cli.output import size_text

    for one in document["retired"]:
        verb = "would retire" if dry_run else "retired"
        console.show(f"{verb} #{one['number']} of {one['session']}: {one['reason']}")
    count = len(document["kept"])
    console.show(f"{count} checkpoint{'s' if count != 1 else ''} kept.")
    if not dry_run and document["retired"]:
        console.show(f"{size_text(document['freed_bytes'])} freed.")
