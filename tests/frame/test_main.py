"""One way in and out of every command: help, exit codes, one sentence, the error document."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import cli.main
from cli.main import COMMANDS, available, main
from recorder.errors import IntegrityFailure, NotFound, Refused

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "_recorder_entry.py"
HEAVY = (
    "rich",
    "dulwich",
    "zstandard",
    "eventsourcing",
    "git",
    "psutil",
    "msgspec",
    "sqlite3",
    "re2",
    "humanize",
)

Probe = Callable[[Callable[[argparse.Namespace], int]], None]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Probe:
    """Put a command `config` in place that does what the test says."""

    def install(action: Callable[[argparse.Namespace], int]) -> None:
        module = types.ModuleType("cli.commands.config")

        def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
            parser = subparsers.add_parser("config", description="A probe.")
            parser.add_argument("--json", action="store_true")
            parser.add_argument("--longer-name")
            parser.add_argument("words", nargs="*")

        module.add = add  # type: ignore[attr-defined]
        module.run = lambda arguments, console: action(arguments)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "cli.commands.config", module)

    return install


def failing(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def action(arguments: argparse.Namespace) -> int:
        raise error

    return action


def test_the_exit_code_is_the_commands(probe: Probe) -> None:
    """What a command returns is what the shell sees."""
    probe(lambda arguments: 6)

    assert main(["config"]) == 6


def test_options_before_the_command_reach_it(probe: Probe, tmp_path: Path) -> None:
    """`--home` names the folder, absolute; without it the default home is named."""
    seen: list[argparse.Namespace] = []
    probe(lambda arguments: seen.append(arguments) or 0)  # type: ignore[func-returns-value]

    main(["--home", str(tmp_path), "--debug", "config", "a", "--json"])
    main([f"--home={tmp_path}", "config", "--", "--json"])
    main(["--home", "here", "config"])
    main(["config"])

    assert [one.home for one in seen[:3]] == [tmp_path, tmp_path, Path.cwd() / "here"]
    assert seen[3].home == Path(os.environ["XDG_DATA_HOME"]) / "recorder"
    assert (seen[0].debug, seen[0].json, seen[0].words) == (True, True, ["a"])
    assert (seen[1].debug, seen[1].json, seen[1].words) == (False, False, ["--json"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "COMMAND"),
        (["confgi"], "did you mean “config”?"),
        (["nothing-like-it"], "recorder --help"),
        (["--nonsense", "config"], "--nonsense"),
        (["config", "--nonsense"], "--nonsense"),
        (["config", "--longer", "x"], "--longer"),
        (["--hom", "x", "config"], "--hom"),
        (["--home", "", "config"], "--home"),
    ],
)
def test_unknown_words_are_one_sentence_and_exit_2(
    probe: Probe, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    """Unknown commands and options, abbreviations too; nothing on stdout."""
    probe(lambda arguments: 0)

    assert main(words) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("recorder: ")
    assert says in err


def test_usage_problems_have_the_error_document_too(probe: Probe, capfd: pytest.CaptureFixture[str]) -> None:
    """`--json` anywhere before `--` asks for it, even if the words are wrong otherwise."""
    probe(lambda arguments: 0)

    assert main(["config", "--nonsense", "--json"]) == 2
    assert json.loads(capfd.readouterr().out)["error"]["code"] == "usage"

    assert main(["config", "--nonsense", "--", "--json"]) == 2
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (NotFound("no such session", wanted="x", file=Path("/y")), 3, "not_found"),
        (Refused("it would overwrite a file", code="locked"), 4, "locked"),
        (IntegrityFailure("the chain is broken"), 5, "integrity"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "disk_full"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 1, "not_permitted"),
        (ValueError("some secret detail"), 1, "internal"),
    ],
)
def test_failures_are_one_sentence_a_document_and_a_code(
    probe: Probe, capfd: pytest.CaptureFixture[str], error: Exception, code: int, name: str
) -> None:
    """Each failure by its class; no traceback."""
    probe(failing(error))

    assert main(["config"]) == code
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "Traceback" not in err

    assert main(["config", "--json"]) == code
    out, err = capfd.readouterr()
    document = json.loads(out)["error"]
    assert document["code"] == name
    assert err == f"recorder: {document['message']}\n"
    if name == "not_found":
        assert (document["wanted"], document["file"]) == ("x", "/y")
    if name == "internal":
        assert "--debug" in err
        assert "secret" not in err


def test_debug_shows_the_traceback(probe: Probe, capfd: pytest.CaptureFixture[str]) -> None:
    """Only on demand, and the sentence stays."""
    probe(failing(ValueError("detail")))

    assert main(["--debug", "config"]) == 1

    err = capfd.readouterr().err
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("recorder: internal error")


def test_an_interrupt_is_130(probe: Probe, capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C says nothing more."""
    probe(failing(KeyboardInterrupt()))

    assert main(["config"]) == 130
    assert capfd.readouterr() == ("", "")


def test_a_reader_that_leaves_is_no_failure() -> None:
    """`recorder … | head`: no traceback, no complaint at the interpreter's end."""
    command = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom cli.main import main\n"
    command += "sys.exit(main(['config', 'list']))"
    process = subprocess.Popen(
        [sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()

    assert process.stderr.read() == ""
    assert process.wait(timeout=30) == 0
    process.stderr.close()


def test_the_overview_lists_what_is_there_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Every command with a module, in the order of the contract, with its line."""
    assert main(["--help"]) == 0

    out = capsys.readouterr().out
    lines = [
        line.split(maxsplit=1) for line in out.splitlines() if line.startswith("  ") and line[2] not in "- "
    ]
    assert [(name, text) for name, text in lines] == [(name, COMMANDS[name]) for name in available()]
    assert set(available()) == {
        path.stem.rstrip("_") for path in (ROOT / "cli" / "commands").glob("*.py") if path.stem != "__init__"
    }


def test_a_command_without_a_module_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name alone is no command: neither listed nor run."""
    monkeypatch.setattr(cli.main, "_FOLDER", tmp_path)

    assert available() == ()
    assert main(["config"]) == 2
    assert "there is no command “config”" in capsys.readouterr().err


@pytest.mark.parametrize("name", available())
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With usage and a description of its own."""
    assert main([name, "--help"]) == 0

    out, err = capsys.readouterr()
    assert out.startswith(f"usage: recorder {name} ")
    assert len(out.split("\n\n")) >= 3
    assert err == ""


def test_the_overview_and_a_commands_help_import_nothing_heavy(tmp_path: Path) -> None:
    """Help answers at once because what is heavy waits until it is needed."""
    for words in (["--help"], *([name, "--help"] for name in available())):
        command = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); from cli.main import main; main({words!r});"
            f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
        )
        result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, timeout=30)

        assert result.stderr == "[]\n", words


def test_help_is_fast() -> None:
    """At most 100 ms over a bare start of the same interpreter.

    The processor's time, which other tests beside this one do not stretch; the best of interleaved rounds.
    """
    spec = importlib.util.spec_from_file_location("startup", ROOT / "tests" / "benchmarks" / "startup.py")
    assert spec is not None and spec.loader is not None
    startup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(startup)

    best = {name: min(processor for _, processor in rounds) for name, rounds in startup.measure(7).items()}

    assert best["--help"] - best["bare"] <= startup.ALLOWED_MS


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version of the package."""
    from recorder import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"recorder {__version__}\n"
