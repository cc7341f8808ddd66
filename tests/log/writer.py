"""A process that writes to a log: `writer.py HOME STREAM COUNT TAG [GENERATION]`.

Appends COUNT runs one by one to the stream, loading its version again after a conflict, and prints the
name of each run once it is on disk. With a generation it moves that log file's position along.
"""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

from recorder.errors import Conflict
from recorder.events import RunStarted
from recorder.home import open_home
from recorder.log import Reached, open_log


def main(home: str, stream: str, count: str, tag: str, generation: str = "") -> None:
    with open_log(open_home(Path(home))) as log:
        print("open", flush=True)
        for number in range(1, int(count) + 1):
            while True:
                fact = RunStarted(
                    originator_id=UUID(stream),
                    originator_version=log.version(UUID(stream)) + 1,
                    at=number,
                    time="",
                    run=f"{tag}-{number}",
                )
                reached = Reached(generation, number, b"/log", b"\n") if generation else None
                try:
                    log.append([fact], reached=reached)
                except Conflict as conflict:
                    if conflict.code == "position":
                        break
                    continue
                print(fact.run, flush=True)
                break


if __name__ == "__main__":
    main(*sys.argv[1:])
