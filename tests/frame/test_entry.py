"""The command starts from our own packages and a clean environment, wherever it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from _recorder_entry import guarded_path
from recorder import __version__

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "_recorder_entry.py"
OURS = ("recorder", "projections", "cli", "migrations")
OTHERS = ("msgspec", "rich", "json", "argparse", "platformdirs", "tomlkit", "re2", "git")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Packages with our names and our libraries' names; importing one leaves a trace and fails."""
    folder = tmp_path / "hostile"
    for name in (*OURS, *OTHERS):
        package = folder / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            f"open({str(tmp_path / 'trace')!r}, 'a').write('{name} ')\nraise SystemExit(99)\n"
        )
        (package / "main.py").write_text("raise SystemExit(99)\n")
    return folder


def start(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize("words", [["--version"], ["config", "--json"]])
@pytest.mark.parametrize("pythonpath", ["", ".", "{hostile}", "{hostile}{sep}/nowhere"])
def test_hostile_packages_in_the_folder_and_on_pythonpath_are_not_imported(
    hostile: Path, words: list[str], pythonpath: str
) -> None:
    """Started as the console script starts it: the script's folder, not the current one, on the path."""
    script = hostile.parent / "bin" / "recorder"
    script.parent.mkdir()
    script.write_text(
        f"import sys\nsys.path.append({str(ROOT)!r})\nfrom _recorder_entry import main\nsys.exit(main())\n"
    )
    given = pythonpath.format(hostile=hostile, sep=os.pathsep)
    result = start(script, *words, cwd=hostile, PYTHONPATH=given)

    assert (result.returncode, result.stderr) == (0, "")
    assert not (hostile.parent / "trace").exists()
    if words == ["--version"]:
        assert result.stdout == f"recorder {__version__}\n"


def test_started_as_a_module_in_a_hostile_folder(hostile: Path) -> None:
    """`python -m _recorder_entry` puts the current folder first on the path: it is taken out again."""
    result = start("-m", "_recorder_entry", "config", "--json", cwd=hostile, PYTHONPATH=str(ROOT))

    assert (result.returncode, result.stderr) == (0, "")
    assert not (hostile.parent / "trace").exists()


def test_isolated_start_by_absolute_path(hostile: Path) -> None:
    """Hooks and the daemon start it with `-I`, which leaves even the script's own folder out."""
    result = start("-I", ENTRY, "--version", cwd=hostile, PYTHONPATH=str(hostile))

    assert (result.returncode, result.stdout) == (0, f"recorder {__version__}\n")


def test_started_inside_its_own_checkout() -> None:
    """The current folder may be ours: it stays."""
    result = start("_recorder_entry.py", "--version", cwd=ROOT)

    assert (result.returncode, result.stdout) == (0, f"recorder {__version__}\n")


def test_git_variables_do_not_get_in(tmp_path: Path) -> None:
    """From a git hook GIT_DIR names the user's repository: it is gone before any command runs."""
    probe = "import os, sys; sys.path.insert(0, {root!r}); sys.argv[1:] = ['--version']\n"
    probe += "import _recorder_entry; _recorder_entry.main()\n"
    probe += "print([name for name in os.environ if name.startswith('GIT_')])"

    result = start("-c", probe.format(root=str(ROOT)), cwd=tmp_path, GIT_DIR="/x", GIT_INDEX_FILE="/y")

    assert result.stdout.splitlines()[-1] == "[]"


def test_the_order_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our folder hides what is installed, PYTHONPATH hides nothing, the current folder is out."""
    monkeypatch.chdir(tmp_path)
    library = str(Path(os.__file__).parent)

    path = guarded_path(
        ["", str(tmp_path), "/given", library, "/installed", str(ROOT)], f"/given{os.pathsep}."
    )

    assert path == [library, str(ROOT), "/installed", "/given"]


def test_standing_in_the_installed_packages_does_not_hide_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site-packages folder that happens to be the current one is still where the libraries are."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.chdir(packages)

    assert str(packages) in guarded_path(["", str(packages)], "")
