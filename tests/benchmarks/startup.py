"""What starting the command costs over a bare start of the same interpreter.

`python tests/benchmarks/startup.py [ROUNDS]`: medians of interleaved rounds, in milliseconds, of the
time that passed and of the processor's time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ENTRY = str(Path(__file__).parents[2] / "_recorder_entry.py")
ALLOWED_MS = 100


def measure(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """For each kind of start, per round: the ms that passed, and the processor's ms."""
    commands = {
        "bare": ["-I", "-c", "pass"],
        "--version": ["-I", ENTRY, "--version"],
        "--help": ["-I", ENTRY, "--help"],
        "config --help": ["-I", ENTRY, "config", "--help"],
        "config --json": ["-I", ENTRY, "config", "--json"],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, words in commands.items():
            started = time.perf_counter()
            child = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            passed = time.perf_counter() - started
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0, name
            taken[name].append((passed * 1000, (usage.ru_utime + usage.ru_stime) * 1000))
    return taken


def main() -> None:
    taken = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
    medians = {
        name: [statistics.median(values) for values in zip(*rounds, strict=True)]
        for name, rounds in taken.items()
    }
    for name, (passed, processor) in medians.items():
        over = passed - medians["bare"][0]
        print(f"{name:<14} {passed:6.1f} ms  (+{over:.1f})   processor {processor:6.1f} ms")
    print(f"allowed over bare for --help: {ALLOWED_MS} ms")


if __name__ == "__main__":
    main()
