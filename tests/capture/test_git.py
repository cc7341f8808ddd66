import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from recorder import git
from recorder.errors import StoreFailure
from tests.capture.helpers import make_repository


def put_in_place_of_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    git.run(["version"], git_dir=b"/x")
    stub = tmp_path / "bin/git"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\n{script}\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stub.parent}:/usr/bin:/bin")


def test_a_git_that_does_not_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call has a deadline; the process and what it started are gone, and the failure is told."""
    put_in_place_of_git(tmp_path, monkeypatch, "sleep 60\nexit 0")
    begun = time.monotonic()
    with pytest.raises(StoreFailure, match="not done within"):
        git.run(["ls-files"], git_dir=os.fsencode(tmp_path), deadline=0.4)
    assert time.monotonic() - begun < 10
    assert not [child for child in psutil.Process().children(recursive=True) if child.status() != "zombie"]


def test_stdin_is_closed_unless_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git that reads from its input never waits; what is given and what comes back are bytes untouched."""
    put_in_place_of_git(tmp_path, monkeypatch, "exec cat")
    assert git.run([], git_dir=b"/x").out == b""
    content = b"\0\xff\n\n\r\n" * 50_000
    assert git.run([], git_dir=b"/x", stdin=content).out == content


def test_a_failure_names_gits_own_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that must succeed fails with the line that says why; no git at all is told too."""
    repository = make_repository(tmp_path / "r")
    with pytest.raises(StoreFailure, match=r"fatal: .*nothing"):
        git.demand(["rev-parse", "--verify", "nothing-like-it"], git_dir=os.fsencode(tmp_path / "nothing"))
    assert git.demand(["rev-parse", "--is-bare-repository"], git_dir=os.fsencode(repository / ".git"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreFailure, match="not installed"):
        git.run(["version"], git_dir=b"/x")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 60\nexit 0", "was not done within 0.4 seconds"),
        ("exec cat", "Answer(status=0"),
        ("exit 3", "Answer(status=3"),
        ("\0not a program", "does not work"),
    ],
)
def test_the_first_call_of_a_process(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in git's place, nothing waits for it longer than for a call, and it is told."""
    put_in_place_of_git(tmp_path, monkeypatch, script)
    if "\0" in script:
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        (tmp_path / "bin/git").write_bytes(b"\x7fELF\0\0")
    asked = (
        "from recorder import errors, git\n"
        "try: print(git.run(['version'], git_dir=b'/x', deadline=0.4))\n"
        "except errors.StoreFailure as error: print(error.message)"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked],
        stdin=subprocess.PIPE,
        capture_output=True,
        cwd=Path(__file__).parents[2],
        timeout=20,
        check=True,
    )
    assert said in done.stdout.decode(), done


def test_a_partial_clone_never_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking the project's repository runs no transport, whatever its configuration says."""
    repository = make_repository(tmp_path / "r")
    trap = tmp_path / "trap"
    with (repository / ".git/config").open("a") as config:
        config.write(
            "[core]\n repositoryformatversion = 1\n[extensions]\n partialClone = far\n"
            f'[remote "far"]\n url = ext::touch {trap}\n promisor = true\n'
            ' partialclonefilter = blob:none\n[protocol "ext"]\n allow = always\n'
        )
    answer = git.run(["cat-file", "-t", "1" * 40], git_dir=os.fsencode(repository / ".git"))
    assert answer.status != 0
    assert not trap.exists()
