"""`recorder import`: read whole logs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from cli.options import with_json

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.options import Subparsers
    from cli.output import Console
    from recorder.reading.importing import FileReport, ImportReport, Progress

WHY = "it was imported from its log: nobody looked at the files when the prompt was given"


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "import", description="Read whole session logs into the recording; a second time adds nothing."
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="log files, or folders of them")
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import new_recording
    from recorder.errors import NotFound

    for path in arguments.paths:
        if not path.exists():
            raise NotFound(f"there is no {path}", code="no_path")
    with new_recording(arguments) as recording:
        report = _import(arguments, recording, console)
    for one in report.files:
        if one.error:
            console.note(f"recorder: {one.error}")
    if arguments.json:
        console.json(_document(report))
    else:
        _show(report, console)
    return _exit_code(report, {os.fsencode(path.absolute()) for path in arguments.paths})


def _exit_code(report: ImportReport, named: Collection[bytes]) -> int:
    """0 where every log was read; 6 where some were not, 1 where none was. What lies in a folder and is no
    log is only told of: agents keep other files beside their logs."""
    bad = [one for one in report.files if one.error and (one.path in named or not one.no_log)]
    if not bad:
        return 0
    return 1 if len(bad) == len(report.files) else 6


def _import(arguments: argparse.Namespace, recording: Recording, console: Console) -> ImportReport:
    from cli.progress import counting
    from cli.reactor import reactor_of
    from recorder.reading.importing import import_paths
    from recorder.sources import all_sources

    sources = all_sources()
    paths = [path.absolute() for path in arguments.paths]
    with counting("reading", _total(paths), console) as advance:
        report = import_paths(recording.log, sources, paths, _steps(advance))
    with reactor_of(recording) as reactor:
        reactor.refuse(_streams(report), WHY, spare_fresh=recording.home.held("watch"))
    return report


def _streams(report: ImportReport) -> set[UUID]:
    """The sessions that were read: what others wait for is not this command's."""
    from recorder.events import session_stream

    return {session_stream(one.agent, one.session) for one in report.files if one.agent and one.session}


def _total(paths: list[Path]) -> int:
    files = [
        file
        for path in paths
        for file in (path.rglob("*.jsonl") if path.is_dir() else [path])
        if file.is_file()
    ]
    return sum(file.stat().st_size for file in files)


def _steps(advance: Callable[[int], None]) -> Callable[[Progress], None]:
    reached = 0

    def tell(progress: Progress) -> None:
        nonlocal reached
        advance(max(progress.done - reached, 0))
        reached = max(progress.done, reached)

    return tell


def _document(report: ImportReport) -> dict[str, object]:
    return {
        "files": [_file_document(one) for one in report.files],
        "totals": {
            "files": len(report.files),
            "entries": report.totals.entries,
            "new": report.totals.new,
            "duplicates": report.totals.duplicates,
            "not_understood": report.totals.not_understood,
            "bad_lines": report.totals.bad_lines,
        },
    }


def _file_document(one: FileReport) -> dict[str, object]:
    from cli.output import path_fields

    return {
        **path_fields(one.path),
        "agent": one.agent,
        "session": one.session,
        "entries": one.counts.entries,
        "new": one.counts.new,
        "duplicates": one.counts.duplicates,
        "not_understood": one.counts.not_understood,
        "bad_lines": one.counts.bad_lines,
        **({"error": one.error} if one.error else {}),
    }


def _show(report: ImportReport, console: Console) -> None:
    from cli.output import path_text

    if not report.files:
        console.show("There was no log to read.")
    for one in report.files:
        if one.error:
            continue
        strange = sum(one.counts.not_understood.values())
        parts = [f"{one.counts.new} new", f"{one.counts.duplicates} known before"]
        parts += [f"{strange} not understood (kept)"] if strange else []
        parts += [f"{one.counts.bad_lines} bad lines (kept)"] if one.counts.bad_lines else []
        console.show(f"{one.agent} {one.session}: {', '.join(parts)} — {path_text(one.path)}")
