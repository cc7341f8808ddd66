from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from recorder.errors import Failed, IntegrityFailure, Refused
from recorder.home import Home, default_home, find_home, open_home

ROOT = Path(__file__).parents[2]
PARTS = {"version", "secret", ".gitignore", "locks", "trees"}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_made_private(tmp_path):
    """Folders 0700, files 0600, whatever the umask is; git is told to ignore all of it."""
    before = os.umask(0)
    try:
        home = open_home(tmp_path / "new" / "home")
    finally:
        os.umask(before)

    assert {path.name for path in home.folder.iterdir()} == PARTS
    assert mode(home.folder) == mode(home.folder / "locks") == mode(home.folder / "trees") == 0o700
    assert {mode(path) for path in home.folder.rglob("*") if path.is_file()} == {0o600}
    assert (home.folder / ".gitignore").read_text() == "*\n"
    assert len(home.secret()) == 32


def test_a_home_is_found_once_it_is_there(tmp_path):
    """Looking does not create; opening twice gives the same home and secret."""
    folder = tmp_path / "home"
    assert find_home(folder) is None
    assert not folder.exists()

    home = open_home(folder)
    secret = home.secret()

    assert find_home(folder) == open_home(folder) == home
    assert open_home(folder).secret() == secret


def test_an_empty_folder_becomes_a_home(tmp_path):
    """It is made private then."""
    folder = tmp_path / "empty"
    folder.mkdir(mode=0o755)

    assert mode(open_home(folder).folder) == 0o700


@pytest.mark.parametrize(
    "names", [["notes.txt"], [".gitignore"], ["locks", "notes.txt"], ["trees", "secret"]]
)
def test_a_folder_with_other_things_in_it_is_refused(tmp_path, names):
    """It is somebody's: nothing in it is written, and its mode stays."""
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o755)
    for name in names:
        (folder / name).write_text("mine")

    with pytest.raises(Refused, match="not empty and is no home") as caught:
        open_home(folder)

    assert caught.value.code == "not_a_home"
    assert mode(folder) == 0o755
    assert {path.name: path.read_text() for path in folder.iterdir()} == dict.fromkeys(names, "mine")


@pytest.mark.parametrize("missing", [{"version"}, {"version", ".gitignore"}, PARTS - {"locks"}])
def test_a_creation_that_was_cut_off_is_completed(tmp_path, missing):
    """With the secret that is there, so that what was digested with it stays valid."""
    home = open_home(tmp_path / "home")
    secret = home.secret()
    for name in missing:
        path = home.folder / name
        path.rmdir() if path.is_dir() else path.unlink()
    (home.folder / "version.new").write_text("")

    assert find_home(home.folder) is None
    again = open_home(home.folder)

    assert find_home(home.folder) == again
    assert (again.secret() == secret) is ("secret" not in missing)


def test_a_link_to_a_home_leads_to_it(tmp_path):
    """The home is the real folder, and stays it when the link is moved."""
    home = open_home(tmp_path / "home")
    link = tmp_path / "link"
    link.symlink_to(home.folder)

    assert open_home(link) == find_home(link) == home


def test_a_link_to_nothing_makes_the_home_where_it_leads(tmp_path):
    """As writing through it would."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "later")

    assert open_home(link).folder == tmp_path / "later"


def test_links_in_a_circle_are_told(tmp_path):
    """One sentence, no trace."""
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")

    with pytest.raises(Failed, match="circle"):
        open_home(tmp_path / "a")


def test_a_relative_home_stays_where_it_was_named(tmp_path, monkeypatch):
    """A process that changes its folder keeps its home."""
    monkeypatch.chdir(tmp_path)

    assert open_home(Path("home")).folder == tmp_path / "home"


def test_a_file_in_the_place_of_the_home_is_told(tmp_path):
    """Neither a file nor a folder below one can be a home."""
    (tmp_path / "file").write_text("mine")

    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert find_home(folder) is None
        with pytest.raises(Failed, match=r"cannot be written: .*RECORDER_HOME"):
            open_home(folder)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_place_where_nothing_can_be_created_is_told():
    """For root too: /proc takes no folder."""
    with pytest.raises(Failed, match="cannot be written"):
        open_home(Path("/proc/recorder-home"))


@pytest.mark.parametrize(
    ("said", "error"),
    [(b"2\n", Refused), (b"99", Refused), (b"", IntegrityFailure), (b"\xff\x00", IntegrityFailure)],
)
def test_a_layout_that_is_not_this_ones_is_not_touched(tmp_path, said, error):
    """Newer: update the recorder. No number: damaged."""
    home = open_home(tmp_path / "home")
    (home.folder / "version").write_bytes(said)

    for look in (find_home, open_home):
        with pytest.raises(error):
            look(home.folder)
    assert (home.folder / "version").read_bytes() == said


def test_a_secret_that_was_cut_is_told(tmp_path):
    """Digests made with it would fit nothing."""
    home = open_home(tmp_path / "home")
    (home.folder / "secret").write_bytes(b"short")

    with pytest.raises(IntegrityFailure, match="5 bytes"):
        home.secret()


def test_a_lock_is_held_against_other_processes(tmp_path):
    """The second one is refused at once, waits for as long as it is told, and gets it afterwards."""
    home = open_home(tmp_path / "home")
    code = (
        "import sys; from pathlib import Path; from recorder.home import Home\n"
        "with Home(Path(sys.argv[1])).lock('watch'): print('held', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, home.folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert other.stdout.readline() == "held\n"

    with pytest.raises(Refused, match="watch") as caught, home.lock("watch", timeout=0):
        pass
    assert caught.value.code == "locked"
    with home.lock("home", timeout=0):
        pass
    other.communicate("")
    with home.lock("watch", timeout=0):
        pass


def test_a_lock_that_cannot_be_written_is_told(tmp_path):
    """A home whose locks are gone says so instead of a traceback."""
    with (
        pytest.raises(Failed, match="cannot be written"),
        Home(Path("/proc/nothing")).lock("watch", timeout=0),
    ):
        pass


def test_the_default_home_is_named_by_the_environment(tmp_path, monkeypatch):
    """RECORDER_HOME, with `~`, or else a folder of the recorder's in the user's data."""
    monkeypatch.setenv("HOME", str(tmp_path))

    assert default_home({"RECORDER_HOME": "~/flights"}) == tmp_path / "flights"
    assert default_home({"RECORDER_HOME": ""}) == default_home({})
    assert default_home({}).name == "recorder"
