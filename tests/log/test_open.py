from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.errors import Failed, LogFailure
from recorder.home import Home, open_home
from recorder.log import open_log
from tests.log.samples import OTHER, STREAM, run, runs

ROOT = Path(__file__).parents[2]
NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that any user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_a_reader(home: Home, look: Callable[[Home], str]) -> str:
    """What `look` says of the home in a process that may read it and not write it."""
    for path in [*home.folder.rglob("*"), home.folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)
            os.write(writing, look(home).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    for path in [home.folder, *home.folder.rglob("*")]:
        path.chmod(0o700)
    with os.fdopen(reading) as said:
        return said.read()


def count(home: Home) -> str:
    with open_log(home) as log:
        broken = list(log.check())
        return f"{len(log.read())} facts, {len(broken)} broken"


def try_to_append(home: Home) -> str:
    with open_log(home) as log:
        try:
            log.append([run(2)])
        except LogFailure as error:
            return error.message.split(": ")[-1]
    return "appended"


def filled(folder: Path) -> Home:
    home = open_home(folder)
    with open_log(home) as log:
        log.append([run(1)])
    return home


def test_the_environment_does_not_reconfigure_the_log(home, tmp_path, monkeypatch):
    """The library reads settings from `os.environ`; whoever starts the recorder must not move or blind
    the log by one."""
    settings = {
        "PERSISTENCE_MODULE": "eventsourcing.popo",
        "SQLITE_DBNAME": str(tmp_path / "elsewhere.db"),
        "APPLICATION_RECORDER_TOPIC": "eventsourcing.sqlite:SQLiteApplicationRecorder",
        "PROCESS_RECORDER_TOPIC": "eventsourcing.sqlite:SQLiteProcessRecorder",
        "MAPPER_TOPIC": "eventsourcing.persistence:Mapper",
        "TRANSCODER_TOPIC": "nowhere:Transcoder",
        "COMPRESSOR_TOPIC": "zlib",
        "CIPHER_KEY": "x",
        "IS_SNAPSHOTTING_ENABLED": "y",
        "CREATE_TABLE": "n",
        "ORIGINATOR_ID_TYPE": "text",
        "SINGLE_ROW_TRACKING": "n",
        "SQLITE_LOCK_TIMEOUT": "never",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(f"EVENT LOG_{name}", value)

    with open_log(home) as log:
        log.append([run(1)])
        assert list(log.stream(STREAM)) == [run(1)]
        assert log.head().position == 1
    assert home.log.exists()
    assert not (tmp_path / "elsewhere.db").exists()


def test_every_file_of_the_log_is_private(home):
    """The database, its write-ahead log and that one's index, whatever the umask is."""
    before = os.umask(0)
    try:
        with open_log(home) as log:
            log.append([run(1)])
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.folder.glob("log.db*")}
    finally:
        os.umask(before)

    assert modes == {"log.db": 0o600, "log.db-wal": 0o600, "log.db-shm": 0o600}


@pytest.mark.parametrize("name", ["with space", "100% #1?mode=memory", ":memory:", "ü\n", "file:x"])
def test_the_home_may_have_any_name(tmp_path, name):
    """No name is taken for a part of SQLite's address of the file."""
    home = filled(tmp_path / name)

    assert (tmp_path / name / "log.db").stat().st_size > 0
    assert count(home) == "1 facts, 0 broken"


def test_what_a_killed_creation_left_is_no_obstacle(home):
    """Half a database under its private name is thrown away, and nobody sees it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        home.folder.joinpath(f"log.db.new{suffix}").write_bytes(b"half of it")

    assert count(home) == "0 facts, 0 broken"
    assert not list(home.folder.glob("log.db.new*"))


def test_a_log_is_not_made_beside_another_ones_write_ahead_log(home):
    """SQLite would play it into the new database."""
    with open_log(home) as log:
        log.append(runs(1, 5))
        home.log.unlink()

    home.folder.joinpath("log.db-wal").write_bytes(b"what is left of the log")
    with pytest.raises(LogFailure, match="restore both or neither"):
        open_log(home)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"this is no database, whatever its name says " * 100, "it is not a database"),
        (b"", "it is another database"),
    ],
)
def test_a_file_that_is_no_event_log_is_refused(home, content, why):
    """In one sentence, and the file stays as it is."""
    home.log.write_bytes(content)

    with pytest.raises(LogFailure) as caught:
        open_log(home)

    assert str(home.log) in caught.value.message
    assert why in caught.value.message
    assert home.log.read_bytes() == content


def test_a_damaged_schema_is_told(home):
    """Even where SQLite's own message of it is no text any more."""
    filled(home.folder)
    content = home.log.read_bytes()
    home.log.write_bytes(content.replace(b"CREATE TABLE stored_events", b"CREATE TABLE\xa0stored_events", 1))

    with pytest.raises(LogFailure, match="it is damaged"):
        open_log(home)


def test_another_programs_database_is_refused(home):
    """It is a database, and no log."""
    connection = sqlite3.connect(home.log)
    connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()

    with pytest.raises(LogFailure, match="another database"):
        open_log(home)


def test_a_home_without_its_secret_is_refused(home):
    """Without it no body could be found again."""
    filled(home.folder)
    (home.folder / "secret").unlink()

    with pytest.raises(Failed, match="secret"):
        open_log(home)


def test_a_home_that_cannot_be_written_can_be_read(place):
    """Commands that only look work; one that appends says why it cannot."""
    home = filled(place / "home")

    assert as_a_reader(home, count) == "1 facts, 0 broken"
    assert as_a_reader(home, try_to_append) == "it is not writable"


def test_a_home_that_another_process_has_open_can_be_read_only(place, writer):
    """What is in the write-ahead log alone is read too."""
    home = filled(place / "home")
    process = writer(OTHER, 100_000, "other", folder=home.folder)
    told = [process.stdout.readline() for _ in range(6)]
    process.send_signal(signal.SIGSTOP)

    facts = int(as_a_reader(home, count).removesuffix(" facts, 0 broken"))
    assert len(told) <= facts < 100_000


def test_an_append_that_could_not_open_the_database_does_not_block_the_next(home, log):
    """A writer that needs a connection of its own and gets none gives its turn back."""
    elsewhere = home.folder.with_name("elsewhere")
    with log._recorder.datastore.get_connection(commit=False):
        home.folder.rename(elsewhere)
        with pytest.raises(LogFailure, match="it cannot be opened"):
            log.append([run(1)])
        elsewhere.rename(home.folder)

    assert log.append([run(1)]) == [1]


def test_a_full_database_is_told_and_leaves_everything_as_before(log):
    """No room left: one sentence, nothing half written, and the next append that fits works."""
    log.append([run(1)])
    with log._recorder.datastore.transaction(commit=False) as cursor:
        pages = cursor.sqlite_cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.sqlite_cursor.execute(f"PRAGMA max_page_count={pages}")
    content = os.urandom(100_000)
    body = log.body_of(content)

    with pytest.raises(LogFailure, match="there is no room left on its disk"):
        log.append([run(2)], bodies=[(body, content)])

    assert log.version(STREAM) == 1
    assert log.append([run(2)]) == [2]


FILL = """
import os, sys
from pathlib import Path
from recorder.errors import Failed
from recorder.home import open_home
from recorder.log import open_log
from tests.log.samples import STREAM, run, runs

disk = Path(sys.argv[1])
with open_log(open_home(disk / "home")) as log:
    version = 0
    try:
        while True:
            log.append(runs(version + 1, version + 100))
            version += 100
    except Failed as error:
        print(error.message)
    assert log.version(STREAM) == version > 0
    os.unlink(disk / "ballast")
    log.append([run(version + 1)])
    assert log.version(STREAM) == version + 1
    assert not list(log.check())
with open(disk / "more ballast", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        pass
try:
    open_home(disk / "another home")
except Failed as error:
    print(error.message)
"""


def test_a_full_disk_is_told_and_leaves_everything_as_before(tmp_path):
    """On a real file system without room: the log says so, loses nothing, and goes on when there is."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=700k none "$1" && head -c 200000 /dev/zero > "$1/ballast"'
        ' || exit 77; exec "$2" -c "$3" "$1"'
    )
    try:
        done = subprocess.run(
            [
                "unshare",
                "--user",
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                script,
                "sh",
                disk,
                sys.executable,
                FILL,
            ],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this machine lets no test mount a file system")

    assert done.stderr == ""
    appending, creating = done.stdout.splitlines()
    assert appending.endswith("log.db cannot be used: there is no room left on its disk")
    assert "No space left on device" in creating
