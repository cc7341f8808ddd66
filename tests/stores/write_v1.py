"""Writes the frozen store `v1/` from `facts_v1`: `python -m tests.stores.write_v1`.

To be run whenever a contract changes before version 1 is released, and never after: from then on the
files stay as they are, and every later version must open them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from recorder.home import open_home
from recorder.log import open_log
from tests.stores.facts_v1 import BODIES, FACTS, REACHED, SECRET

STORE = Path(__file__).with_name("v1")
FILES = ("version", "secret", "log.db")


def main() -> None:
    shutil.rmtree(STORE, ignore_errors=True)
    STORE.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        home = open_home(Path(folder) / "home")
        (home.folder / "secret").write_bytes(SECRET)
        with open_log(home) as log:
            log.append(FACTS, bodies=BODIES, reached=REACHED[0])
            log.append((), reached=REACHED[1])
            head = log.head()
        for name in FILES:
            shutil.copyfile(home.folder / name, STORE / name)
    (STORE / "head").write_text(f"{head.position} {head.digest}\n")


if __name__ == "__main__":
    main()
