"""The one door into the recorder, safe to use inside other people's projects.

Those have packages of our names, on `PYTHONPATH` or in the current folder, and run commands from
git hooks that leave `GIT_*` set. This file has a name that nobody else has: it makes sure that our
packages and nobody else's are imported, and that no git call can be led into the user's repository.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable


def main() -> int:
    """Run the command line of this process and return its exit code."""
    sys.path[:] = guarded_path(sys.path, os.environ.get("PYTHONPATH", ""))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    from cli.main import main as run

    return run()


# os.path, not pathlib: importing that would cost more than all the rest here.
def guarded_path(path: Iterable[str], pythonpath: str) -> list[str]:
    """Where to import from: standard library, this file's folder, installed packages, PYTHONPATH.

    The current folder is left out. PYTHONPATH comes last because some systems hand dependencies over
    in it; there it can hide nothing.
    """
    own = os.path.dirname(_real(__file__))
    given = {_real(entry) for entry in pythonpath.split(os.pathsep)}
    library: list[str] = []
    installed: list[str] = []
    last: list[str] = []
    for entry in path:
        place = _real(entry)
        if _is_standard_library(place):
            library.append(entry)
        elif place != own and not _is_current_folder(entry, place):
            (last if place in given else installed).append(entry)
    return [*library, own, *installed, *last]


def _real(place: str) -> str:
    """The real path; a relative one as it is where the current folder was deleted: nothing lies there."""
    try:
        return os.path.realpath(place)
    except FileNotFoundError:
        return place


def _is_standard_library(place: str) -> bool:
    folder = os.path.dirname(_real(os.__file__))
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    return place in (folder, os.path.join(folder, "lib-dynload")) or os.path.basename(place) == archive


def _is_current_folder(entry: str, place: str) -> bool:
    """Whether an entry is only there because the command was started in it."""
    packages = os.path.basename(place) in ("site-packages", "dist-packages")
    return not entry or (place == _real(os.curdir) and not packages)


if __name__ == "__main__":
    sys.exit(main())
