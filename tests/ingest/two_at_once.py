"""One of several processes that import the same logs at once: `python two_at_once.py ROOT HOME LOGS`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

    from recorder.home import open_home
    from recorder.log import open_log
    from recorder.reading.importing import Progress, import_paths
    from tests.ingest.simple import SimpleSource

    def tell(progress: Progress) -> None:
        print(progress.done, flush=True)

    print("ready", flush=True)
    sys.stdin.readline()
    with open_log(open_home(Path(sys.argv[2]))) as log:
        totals = import_paths(log, [SimpleSource()], [Path(sys.argv[3])], tell).totals
    print("totals", totals.entries, totals.new, totals.duplicates, totals.bad_lines, flush=True)
