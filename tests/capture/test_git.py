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


def test_a_git_that_does_not_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of git's name that is none gives one sentence, also on the first call of a process."""
    put_in_place_of_git(tmp_path, monkeypatch, "exit 0")
    script = "from recorder import git\ngit.run(['version'], git_dir=b'/x')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=dict(os.environ),
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert b"StoreFailure: the git on the path does not work" in done.stderr


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
