"""Environments, settings and programs that are against it: the real command does its work, leaves no mark,
hangs on nothing and answers with the exit codes that it promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder import git
from recorder.capturing.ignore import _IMPATIENT
from recorder.capturing.tracked import DEADLINE
from recorder.errors import StoreFailure
from tests.capture.helpers import commit_all, look_once, make_repository, write
from tests.flow.conftest import ENTRY, Answer, Recorder
from tests.flow.within import Within
from tests.places.journey import Place, furnish, rampage, same, state, there_and_back
from tests.rights import BOUND_BY_MODES

PATIENCE = 60
"""Seconds after which a command counts as hung."""


class Surroundings(NamedTuple):
    """What the command is started in: `environment` on top of the test's own (None: not set), and `words`
    that start it."""

    environment: Mapping[str, str | None] = {}
    words: tuple[str, ...] = ()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "recorder")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = make_repository(tmp_path / "place" / "w")
    furnish(root)
    (root / "naïve 日本").write_text("a name of its own\n")
    commit_all(root)
    (root / "untracked").write_text("u\n")
    return Place(tmp_path / "place", root)


def run(
    recorder: Recorder, around: Surroundings, *words: str, cwd: Path, check: int | None = 0, **options: object
) -> Answer:
    """One command of its own process; a hang, a traceback or another exit code fails."""
    environment = {**recorder.environment, **around.environment}
    done = subprocess.run(
        [*around.words, sys.executable, "-I", str(ENTRY), *words],
        env={name: value for name, value in environment.items() if value is not None},
        cwd=cwd, timeout=PATIENCE, check=False,
        **{"stdin": subprocess.DEVNULL, "capture_output": True, **options},
    )  # type: ignore[call-overload]  # fmt: skip
    answer = Answer(done.returncode, done.stdout, (done.stderr or b"").decode("utf-8", "replace"))
    assert "Traceback" not in answer.err and "internal error" not in answer.err, answer
    assert check is None or answer.code == check, f"{words}: {answer}"
    return answer


def works(recorder: Recorder, around: Surroundings, place: Place) -> None:
    """A session there, captured whole, rewound and undone, each by a command of its own."""
    agent = recorder.pi(place.root)
    agent.give("go wild")
    start = state(place)
    run(recorder, around, "watch", "--once", cwd=place.root)
    same(start, state(place), "the first capture")
    agent.write("named.txt", "by name\n")
    agent.shell("…", lambda: rampage(place.root))
    agent.done()
    end = state(place)
    run(recorder, around, "watch", "--once", cwd=place.root)
    same(end, state(place), "the second capture")
    done = run(recorder, around, "rewind", "1", "--session", agent.session, "--json", cwd=place.root).json
    assert (done["status"], done["warnings"]) == ("done", []), done
    same(start, state(place), done)
    run(recorder, around, "rewind", "--undo", cwd=place.root)
    same(end, state(place), "undo")


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark where it is run, and fails."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {tmp_path}/sprung\nexit 1\n")
    program.chmod(0o755)
    return program


def sprung(trap: Path) -> str:
    mark = trap.with_name("sprung")
    return mark.read_text() if mark.exists() else ""


# ---- the environment


PROGRAMS = re.compile("EDITOR|PAGER|SSH|ASKPASS|DIFF|PROXY|EXEC|COMMAND|FSMONITOR")


def git_variables(place: Place, trap: Path) -> dict[str, str]:
    """Every name that the git program knows, led astray: traces into the work tree, programs into a trap,
    the rest to where nothing is."""
    program = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip(), "git")
    known = {name.decode() for name in re.findall(rb"\bGIT_[A-Z0-9_]+\b", program.read_bytes())}
    assert {"GIT_DIR", "GIT_INDEX_FILE", "GIT_CONFIG_PARAMETERS", "GIT_TRACE2"} <= known
    values = {}
    for name in sorted(known):
        if "TRACE" in name:
            values[name] = str(place.root / name)
        else:
            values[name] = str(trap) if PROGRAMS.search(name) else "/nonexistent/hostile"
    settings = [
        ("core.fsmonitor", str(trap)),
        ("core.hooksPath", str(trap.parent)),
        ("core.excludesFile", "/"),
    ]
    for number, (name, value) in enumerate(settings):
        values |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    values |= {"GIT_CONFIG_COUNT": str(len(settings)), "GIT_PYTHON_TRACE": "full"}
    return values | {
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{trap}'",
        "GIT_PYTHON_GIT_EXECUTABLE": str(trap),
    }


def test_every_variable_of_gits_and_packages_of_our_names(
    recorder: Recorder, place: Place, tmp_path: Path, trap: Path
) -> None:
    """None of the variables reaches git, the repository or the work tree; nothing is imported from PYTHONPATH
    or from the current folder."""
    for folder in (tmp_path / "python", place.root):
        for name in ("cli", "recorder", "git", "msgspec", "projections", "logging", "dulwich"):
            write(folder / name / "__init__.py", f"import os\nos.system({str(trap)!r})\n")
    python = {
        "PYTHONPATH": str(tmp_path / "python"),
        "PYTHONSTARTUP": str(trap),
        "PYTHONHOME": "/nonexistent",
    }
    works(recorder, Surroundings({**git_variables(place, trap), **python}), place)
    assert sprung(trap) == ""


def under(limits: str, *bound: str) -> tuple[str, ...]:
    """Words that start a command with a shell's limits."""
    return (*bound, "sh", "-c", f'{limits}; exec "$@"', "sh")


NOT_SET = dict.fromkeys(
    ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "USER")
)


@pytest.mark.parametrize(
    "around",
    [
        Surroundings(
            {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
            | {"HOME": "/proc", "TMPDIR": "/proc", "TZ": "No/Where:::"},
            under("umask 000; ulimit -s 1024"),
        ),
        Surroundings({**NOT_SET, "TMPDIR": "/nonexistent", "LC_ALL": "xx_YY.nonsense"}, under("umask 077")),
    ],
    ids=["ascii, nowhere to write", "homeless, no such locale"],
)
def test_environments(around: Surroundings, recorder: Recorder, place: Place) -> None:
    """Locales, times, encodings, homes, temporary folders, masks that are unset or nonsense."""
    works(recorder, around, place)


@pytest.mark.parametrize(
    ("limits", "said"),
    [("ulimit -n 20", "ulimit -n"), ("ulimit -f 8", "disk I/O error"), ("umask 777", "cannot be written")],
)
def test_limits_that_leave_no_room(limits: str, said: str, recorder: Recorder, place: Place) -> None:
    """One sentence and exit 1; with room again the same home is good, and what was missed says why."""
    agent = recorder.pi(place.root)
    agent.give("go wild")
    before = state(place)
    around = Surroundings({}, under(limits, *BOUND_BY_MODES))
    answer = run(recorder, around, "watch", "--once", cwd=place.root, check=1)
    assert said in answer.err and len(answer.err.splitlines()) == 1, answer
    same(before, state(place))
    if recorder.home.exists():
        recorder.home.chmod(0o700)
    run(recorder, Surroundings(), "watch", "--once", cwd=place.root)
    [one] = run(recorder, Surroundings(), "checkpoints", agent.session, "--json", cwd=place.root).json
    assert one["state"] == "complete" or (one["restorable"] and one["why_not"]), one


# ---- git's configuration


def configure(trap: Path) -> Path:
    """The user's own configuration of git: all that could run something or change bytes."""
    file = Path(os.environ["HOME"]) / ".gitconfig"
    programs = "".join(
        f"{name} = {trap}\n" for name in ("fsmonitor", "sshCommand", "editor", "pager", "askPass")
    )
    aliases = "".join(f"{name} = !{trap}\n" for name in ("check-ignore", "ls-files", "config", "diff-tree"))
    file.write_text(
        f"[core]\n{programs}hooksPath = {trap.parent}/hooks\nautocrlf = true\nsafecrlf = true\n"
        "[commit]\ngpgSign = true\n[gpg]\nprogram = false\n[init]\ndefaultObjectFormat = sha256\n"
        f"templateDir = {trap.parent}/template\n[alias]\n{aliases}[diff]\nexternal = {trap}\n"
        f'[filter "x"]\nclean = {trap}\nsmudge = {trap}\nrequired = true\n'
        "[safe]\ndirectory =\n[protocol]\nallow = never\n"
    )
    for name in (
        "pre-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "fsmonitor-watchman",
    ):
        write(trap.parent / "hooks" / name, trap.read_bytes())
        (trap.parent / "hooks" / name).chmod(0o755)
    write(trap.parent / "template" / "marked", "a template's\n")
    return file


def test_a_hostile_configuration(recorder: Recorder, place: Place, trap: Path) -> None:
    """The user's and the repository's own: nothing is run and nothing is converted."""
    file = configure(trap)
    with (place.root / ".git" / "config").open("a") as config:
        config.write(file.read_text() + "[include]\npath = ../nowhere\n")
    write(place.root / ".gitattributes", "* text=auto filter=x diff=x merge=x\n")
    write(place.root / "crlf", b"a\r\nb\n")
    works(recorder, Surroundings(), place)
    assert sprung(trap) == "" and not list(recorder.home.rglob("marked"))


@pytest.mark.parametrize(
    "lines", ["[include]\npath = .gitconfig\n", "[core\n", "\0" * 50, "[core]\nexcludesFile\n"]
)
def test_a_configuration_that_git_cannot_read(lines: str, tmp_path: Path) -> None:
    """One that includes itself, or is none: what is not tracked is unknown with git's reason."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    commit_all(root)
    write(root / "b", "1")
    write(Path(os.environ["HOME"]) / ".gitconfig", lines)
    tree, look = look_once(tmp_path, root)
    assert [note.path for note in look.unknown] == [b"b"] and "git cannot say" in look.unknown[0].why
    assert tree.state(look.commit, b"a").kind == "file"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def missing(path: Path) -> None:
    pass


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [fifo, folder, missing, a_link_to_a_device])
def test_excludes_that_are_no_file(make: object, tmp_path: Path) -> None:
    """They hold no rule, and are not waited for."""
    make(tmp_path / "excludes")  # type: ignore[operator]
    write(Path(os.environ["HOME"]) / ".gitconfig", f"[core]\nexcludesFile = {tmp_path}/excludes\n")
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    tree, look = look_once(tmp_path, root)
    assert look.unknown == () and tree.state(look.commit, b"a").kind == "file"


TRAPS = (
    ".gitignore",
    ".git/info/exclude",
    ".git/config",
    ".git/HEAD",
    ".git/index",
    ".git/packed-refs",
    ".git",
)


@pytest.mark.parametrize("nested", ["", "nested/"])
@pytest.mark.parametrize("name", TRAPS)
def test_pipes_in_place_of_gits_files(nested: str, name: str, tmp_path: Path) -> None:
    """Nothing waits for a pipe that nobody writes to. What git can say nothing of is unknown with the reason,
    what is beside it is captured."""
    root = make_repository(tmp_path / "w")
    write(root / "beside", "1")
    inner = make_repository(root / nested) if nested else root
    write(inner / "a", "1")
    place = inner / name
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    os.mkfifo(place)
    begun = time.monotonic()
    tree, look = look_once(tmp_path, root)
    assert time.monotonic() - begun < PATIENCE / 4
    assert all("git cannot say whether it is ignored" in note.why for note in look.unknown), look
    if nested:
        assert tree.state(look.commit, b"beside").kind == "file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to somebody else")
def test_a_repository_of_somebody_elses(within: Within, place: Place) -> None:
    """With no `safe.directory` that names it, git itself refuses it; it is recorded all the same."""
    for path in (place.root, *place.root.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    refused = subprocess.run(["git", "status"], cwd=place.root, capture_output=True, check=False)
    assert refused.returncode == 128
    there_and_back(within, place)


# ---- the git on the path


@pytest.mark.parametrize(
    "script",
    ["cat; cat /dev/tty; head -c 999 /dev/zero; exit 0", None],
    ids=["waits for input and prints rubbish", "is not there"],
)
def test_a_git_that_is_none(script: str | None, recorder: Recorder, place: Place, tmp_path: Path) -> None:
    """What it cannot say is unknown with the reason, and nothing is changed by mistake."""
    write(tmp_path / "bin" / "git", f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "git").chmod(0o755 if script else 0o644)
    tools = "" if script is None else f":{os.environ['PATH']}"
    around = Surroundings({"PATH": f"{tmp_path}/bin{tools}"})
    agent = recorder.pi(place.root)
    agent.give("go wild")
    run(recorder, around, "watch", "--once", cwd=place.root)
    agent.shell("…", lambda: rampage(place.root))
    agent.done()
    run(recorder, around, "watch", "--once", cwd=place.root)
    end = state(place)
    shown = run(recorder, around, "show", "1", "--session", agent.session, "--json", cwd=place.root).json
    assert shown["state"] == "partial" and "git" in shown["unknown"][0]["why"], shown
    words = ("rewind", "1", "--session", agent.session, "--json")
    done = run(recorder, around, *words, cwd=place.root, check=None)
    assert done.code in (0, 4, 6), done
    same(end, state(place), done)


def test_a_git_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In many repositories it is waited for in two, and not as long in the second."""
    root = make_repository(tmp_path / "w")
    for number in range(12):
        write(make_repository(root / f"nested{number}") / "f")
    waited: list[float] = []
    real = git.run

    def hangs(arguments: list[str], **options: Any) -> git.Answer:
        if b"nested" not in options["git_dir"]:
            return real(arguments, **options)
        waited.append(options["deadline"])
        raise StoreFailure("git was not done in time", code="deadline")

    monkeypatch.setattr("recorder.git.run", hangs)
    tree, look = look_once(tmp_path, root)
    assert waited == [DEADLINE, _IMPATIENT]
    assert len(look.unknown) == 12 and all("not done in time" in note.why for note in look.unknown), look
    tree.close()
