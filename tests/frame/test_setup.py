"""`sh setup` on machines that have what it needs, or lack it: a stand-in interpreter, no network."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("cat", "cksum", "dirname", "grep", "rm", "sh", "git", "mkdir", "cp", "chmod")

# Answers as python does where `setup` asks, and writes down what it was asked to do.
STAND_IN = """#!/bin/sh
case "$*" in
    *"print(sys.executable)"*) {probe} ;;
    "-c "*) exit 0 ;;
    "-m venv "*) mkdir -p .venv/bin; cp "{python}" .venv/bin/python ;;
    "-m pip install --help") echo "{pip_help}" ;;
esac
case "$*" in -m*) echo "$*" >>"{log}" ;; esac
"""


class Machine:
    """A checkout and a PATH with the named tools alone."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "check out"
        self.tools = folder / "bin"
        self.log = folder / "log"
        self.checkout.mkdir()
        self.tools.mkdir()
        for name in ("setup", "pyproject.toml"):
            shutil.copy(ROOT / name, self.checkout)
        for name in TOOLS:
            found = shutil.which(name)
            assert found is not None
            (self.tools / name).symlink_to(found)

    def install_python(
        self, name: str = "python3", *, probe: str = "", pip_help: str = "--group <group>"
    ) -> None:
        python = self.tools / name
        script = STAND_IN.format(
            python=python, log=self.log, pip_help=pip_help, probe=probe or f'echo "{python}"'
        )
        python.write_text(script)
        python.chmod(0o755)

    def setup(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(self.checkout / "setup"), *words],
            cwd="/", env={"PATH": str(self.tools), "HOME": os.environ["HOME"]},
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30,
        )  # fmt: skip

    def done(self) -> list[str]:
        """What the interpreter was asked to do since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [
            " ".join(word for word in line.split() if word not in ("--quiet", "--disable-pip-version-check"))
            for line in lines
        ]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_it_makes_the_environment_and_installs_once(machine: Machine) -> None:
    """The first run does it all, from any folder; a repeat does nothing."""
    machine.install_python()

    assert machine.setup().returncode == 0
    assert machine.done() == ["-m venv --clear .venv", "-m pip install --editable ."]

    assert machine.setup().returncode == 0
    assert machine.done() == []


def test_dev_adds_what_the_tests_need(machine: Machine) -> None:
    """On top of what is there; and then the plain set-up has nothing to do."""
    machine.install_python()
    machine.setup()
    machine.done()

    assert machine.setup("--dev").returncode == 0
    assert machine.done() == ["-m pip install --help", "-m pip install --editable . --group dev"]

    machine.setup("--dev")
    machine.setup()
    assert machine.done() == []


def test_an_old_pip_is_brought_up_to_date_first(machine: Machine) -> None:
    """Dependency groups are unknown to the pip that older interpreters bring along."""
    machine.install_python(pip_help="no such thing")

    assert machine.setup("--dev").returncode == 0
    assert machine.done()[-2:] == ["-m pip install --upgrade pip", "-m pip install --editable . --group dev"]


def test_changed_dependencies_are_installed_again(machine: Machine) -> None:
    """The environment stays, its content follows."""
    machine.install_python()
    machine.setup()
    machine.done()
    with open(machine.checkout / "pyproject.toml", "a") as file:
        file.write("# changed\n")

    assert machine.setup().returncode == 0
    assert machine.done() == ["-m pip install --editable ."]


def test_a_moved_checkout_gets_a_new_environment(machine: Machine, tmp_path: Path) -> None:
    """The scripts of an environment name its place."""
    machine.install_python()
    machine.setup()
    machine.done()
    machine.checkout = machine.checkout.rename(tmp_path / "moved")

    assert machine.setup().returncode == 0
    assert machine.done() == ["-m venv --clear .venv", "-m pip install --editable ."]


def test_a_shim_is_asked_for_the_interpreter_behind_it(machine: Machine) -> None:
    """The environment is made with the interpreter itself, not with a slow shim on the path."""
    machine.install_python("real-python")
    machine.install_python("python3", probe=f'echo "{machine.tools / "real-python"}"')

    result = machine.setup()

    assert result.returncode == 0
    assert f"with {machine.tools / 'real-python'}" in result.stderr


def test_the_next_interpreter_is_tried(machine: Machine) -> None:
    """A `python3` that is too old, lacks venv or is a shim for nothing is passed over."""
    machine.install_python("python3", probe="exit 1")
    machine.install_python("python3.12")

    assert machine.setup().returncode == 0
    assert machine.done() != []


@pytest.mark.parametrize("present", [True, False])
def test_without_a_fit_interpreter_it_says_what_to_install(machine: Machine, present: bool) -> None:
    """One sentence, nothing made."""
    if present:
        machine.install_python(probe="exit 1")

    result = machine.setup()

    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "python3-venv" in result.stderr
    assert not (machine.checkout / ".venv").exists()


def test_without_git_it_says_so(machine: Machine) -> None:
    """Before anything is made."""
    machine.install_python()
    (machine.tools / "git").unlink()

    result = machine.setup()

    assert result.returncode == 1
    assert "git is missing" in result.stderr
    assert machine.done() == []


def test_unknown_words_are_usage(machine: Machine) -> None:
    """Exit 2 and the usage."""
    result = machine.setup("--all")

    assert (result.returncode, result.stderr) == (2, "usage: sh setup [--dev]\n")


def test_scripts_parse() -> None:
    """Both scripts are sound for the shells that run them."""
    subprocess.run(["sh", "-n", str(ROOT / "setup")], check=True)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
