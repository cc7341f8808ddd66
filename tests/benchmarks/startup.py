"""What starting the command costs over a bare start of the same interpreter.

`python tests/benchmarks/startup.py [ROUNDS]`: medians of interleaved rounds, in milliseconds.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ENTRY = str(Path(__file__).parents[2] / "_recorder_entry.py")
ALLOWED_MS = 100


def measure(rounds: int) -> dict[str, list[float]]:
    """The time of each start of each kind, in ms."""
    commands = {
        "bare": ["-I", "-c", "pass"],
        "--version": ["-I", ENTRY, "--version"],
        "--help": ["-I", ENTRY, "--help"],
        "config --help": ["-I", ENTRY, "config", "--help"],
        "config --json": ["-I", ENTRY, "config", "--json"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, words in commands.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
            taken[name].append((time.perf_counter() - started) * 1000)
    return taken


def main() -> None:
    taken = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, milliseconds in medians.items():
        print(f"{name:<14} {milliseconds:6.1f} ms  (+{milliseconds - medians['bare']:.1f})")
    print(f"allowed over bare for --help: {ALLOWED_MS} ms")


if __name__ == "__main__":
    main()
