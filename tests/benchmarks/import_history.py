"""Import of a whole history against the floor: parse with msgspec, digest, insert the same rows.

Run `python tests/benchmarks/import_history.py [MEGABYTES] [ROUNDS]`. The history is made of the sample
logs, with ids of their own for every session and texts as long as in real ones. Import and floor run
in turn, each in a process of its own, with the same durability; medians, their ratio and the peak
memory of the import are printed.
"""

from __future__ import annotations

import hmac
import json
import os
import random
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"
GOAL = 1 / 3

_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PI_ID = re.compile(rb'(?<=[iI]d":")[0-9a-f]{8}(?=")')
_CUT = re.compile(rb"(?:\.\.\.)?<cut (\d+) chars>")
_RESULT = re.compile(rb'(?<="type":"text","text":")(?=[^"@]{4,60}")|(?<="tool_result","content":")')


class History:
    """Makes session logs until they are large enough together."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        sources = sorted(Path(os.__file__).parent.glob("*.py"))[:60]
        text = "".join(path.read_text("ascii", errors="ignore") for path in sources)
        self._text = json.dumps(text.replace('"', "'").replace("\\", "/"))[1:-1].encode()
        self._templates = [
            path
            for agent in ("pi", "claude")
            for path in sorted((SAMPLES / agent).rglob("*.jsonl"))
            if path.name not in ("history.jsonl", "migrated-from-v1.jsonl")
        ]

    def write(self, folder: Path, size: int) -> int:
        """Write logs of about `size` bytes in all; returns how many lines they have."""
        written = count = number = 0
        while written < size:
            template = self._templates[number % len(self._templates)]
            content = self._session(template.read_bytes())
            path = folder / template.parts[-2] / f"{number:05}" / template.name
            path.parent.mkdir(parents=True)
            path.write_bytes(content)
            written += len(content)
            count += content.count(b"\n")
            number += 1
        return count

    def _session(self, content: bytes) -> bytes:
        """The template with other ids, and with text where the sample was cut or is short."""
        names: dict[bytes, bytes] = {}

        def other(match: re.Match[bytes]) -> bytes:
            old = match.group()
            if old not in names:
                names[old] = re.sub(rb"[0-9a-f]", lambda _: b"%x" % self._random.randrange(16), old)
            return names[old]

        content = _PI_ID.sub(other, _UUID.sub(other, content))
        content = _CUT.sub(lambda match: self._some(int(match.group(1))), content)
        return _RESULT.sub(lambda _: self._some(self._length()), content)

    def _length(self) -> int:
        """Most outputs are some thousand characters, a few are very long."""
        return 2_000_000 if self._random.random() < 0.001 else int(self._random.expovariate(1 / 9000))

    def _some(self, length: int) -> bytes:
        """So many characters of source code as it stands in JSON, not cut in an escape."""
        start = self._random.randrange(max(1, len(self._text) - length))
        return self._text[start : start + length].rstrip(b"\\") + b" "


def run_import(logs: Path, home: Path) -> None:
    """One import into a new home; prints seconds, peak memory in MB, lines and bytes read."""
    sys.path.insert(0, str(ROOT))
    from recorder.home import open_home
    from recorder.log import open_log
    from recorder.reading.importing import import_paths
    from recorder.sources import all_sources

    with open_log(open_home(home)) as log:
        began = time.perf_counter()
        report = import_paths(log, all_sources(), [logs])
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak, report.totals.entries, report.bytes_read]))


def run_floor(logs: Path, home: Path, database: Path) -> None:
    """Parse, digest, and the rows of the imported home into a bare database; prints seconds."""
    import msgspec

    paths = sorted(logs.rglob("*.jsonl"))
    source = sqlite3.connect(f"file:{home / 'log.db'}?mode=ro", uri=True)
    tables = {
        name: statement
        for name, statement in source.execute("SELECT name, sql FROM sqlite_master WHERE type='table'")
        if name in ("stored_events", "bodies")
    }
    rows = {name: source.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    source.close()
    target = sqlite3.connect(database, isolation_level=None)
    target.execute("PRAGMA journal_mode=WAL")
    target.execute("PRAGMA synchronous=FULL")
    for statement in tables.values():
        target.execute(statement)
    secret = bytes(32)
    decode = msgspec.json.Decoder().decode
    lines = sum(path.read_bytes().count(b"\n") for path in paths)

    began = time.perf_counter()
    done = 0
    taken = dict.fromkeys(rows, 0)
    for batch in _batches(paths):
        for line in batch:
            decode(line)
            hmac.digest(secret, line, "sha256")
        done += len(batch)
        target.execute("BEGIN IMMEDIATE")
        for name, all_rows in rows.items():
            upto = len(all_rows) * done // lines
            some = all_rows[taken[name] : upto]
            taken[name] = upto
            if some:
                target.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(some[0]))})", some)
        target.execute("COMMIT")
    print(json.dumps(time.perf_counter() - began))


def _batches(paths: list[Path]) -> Iterator[list[bytes]]:
    """As many lines in a transaction as the import takes."""
    for path in paths:
        with path.open("rb") as file:
            while batch := file.readlines(1 << 20):
                for first in range(0, len(batch), 250):
                    yield batch[first : first + 250]


def _run(*arguments: object) -> list[float] | float:
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    result: list[float] | float = json.loads(done.stdout)
    return result


def main(megabytes: int = 200, rounds: int = 3) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        logs = Path(scratch) / "logs"
        lines = History().write(logs, megabytes << 20)
        size = sum(path.stat().st_size for path in logs.rglob("*.jsonl"))
        print(f"{size / 2**20:.0f} MB, {lines} lines of {size / lines:.0f} bytes on average")
        imports, floors, peaks = [], [], []
        for number in range(rounds):
            home = Path(scratch) / f"home{number}"
            seconds, peak, entries, read = _run("import", logs, home)  # type: ignore[misc]
            assert entries == lines, (entries, lines)
            imports.append(seconds)
            peaks.append(peak)
            floors.append(_run("floor", logs, home, Path(scratch) / f"floor{number}.db"))
            print(
                f"  import {seconds:.2f} s, floor {floors[-1]:.2f} s, {read / size:.3f} bytes read per byte"
            )
    ratio = statistics.median(floors) / statistics.median(imports)  # type: ignore[type-var]
    print(f"import {statistics.median(imports):.2f} s, peak {max(peaks):.0f} MB")
    print(f"speed relative to the floor: {ratio:.2f} (goal {GOAL:.2f})")
    return 0 if ratio >= GOAL and max(peaks) < 300 else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["import", logs, home]:
            run_import(Path(logs), Path(home))
        case ["floor", logs, home, database]:
            run_floor(Path(logs), Path(home), Path(database))
        case numbers:
            raise SystemExit(main(*map(int, numbers)))
