"""How fast log lines go through redaction where nothing is secret, against reading them with JSON.

`python tests/benchmarks/redaction.py [MEGABYTES]`: MB/s of each, medians of interleaved rounds.
"""

from __future__ import annotations

import base64
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec

from recorder.redact import redact_line

ROUNDS = 5
REAL_LINES = 12


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    benign = (Path(__file__).parents[1] / "frame" / "benign.jsonl").read_bytes().splitlines()
    picture = base64.b64encode(bytes(i * 7919 % 251 for i in range(300_000)))
    corpora = {
        "log lines": benign[:REAL_LINES],
        "pictures": [b'{"type":"image","data":"' + picture + b'"}'],
        "one line in twelve with a secret": [
            *benign[:9],
            benign[0] + b" sk-ant-api03-" + b"Zk3vQ9xTb7Lm2Wp5" * 3,
        ],
    }
    ways: dict[str, Callable[[bytes], object]] = {
        "redact_line": redact_line,
        "parse JSON (msgspec)": _parse,
    }
    for name, lines in corpora.items():
        size = sum(map(len, lines))
        repeated = lines * max(1, megabytes * 1_000_000 // size)
        speeds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, function in ways.items():
                speeds[way].append(_speed(function, repeated))
        print(f"{name} ({size // len(lines)} bytes a line):")
        for way, values in speeds.items():
            print(f"  {way:<22} {statistics.median(values):7.0f} MB/s")


def _parse(line: bytes) -> None:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return


def _speed(function: Callable[[bytes], object], lines: list[bytes]) -> float:
    started = time.perf_counter()
    for line in lines:
        function(line)
    return sum(map(len, lines)) / (time.perf_counter() - started) / 1e6


if __name__ == "__main__":
    main()
