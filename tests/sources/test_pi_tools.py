"""The files that pi's tools change, found as pi itself finds them."""

from __future__ import annotations

import pytest

from recorder.sources import pi_tools
from recorder.sources.base import FileNamed


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/dev")


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("a.txt", b"/w/a.txt"),
        ("./a/../b.txt", b"/w/b.txt"),
        ("../b.txt", b"/b.txt"),
        ("/etc/hosts", b"/etc/hosts"),
        ("//etc//hosts/", b"/etc/hosts"),
        ("@a.txt", b"/w/a.txt"),
        ("@@a.txt", b"/w/@a.txt"),
        ("@/etc/hosts", b"/etc/hosts"),
        ("~/a.txt", b"/home/dev/a.txt"),
        ("@~/a.txt", b"/home/dev/a.txt"),
        ("~", b"/home/dev"),
        ("~other/a.txt", b"/w/~other/a.txt"),
        ("a\u00a0b\u202fc\u3000d", b"/w/a b c d"),
        ("file:///tmp/a%20b.txt", b"/tmp/a b.txt"),
        ("file://localhost/tmp/a", b"/tmp/a"),
        ("file://elsewhere/tmp/a", None),
        ("file:///tmp/a%2Fb", None),
        ("file:///tmp/a%00b", None),
        ("file://[", None),
        ("", b"/w"),
        ("é.txt", "/w/é.txt".encode()),
        ("a\0b", None),
        (None, None),
        (7, None),
    ],
)
def test_paths_are_resolved_as_pi_does(path: object, resolved: bytes | None) -> None:
    """Each form of a path that pi's tools take, and those that it refuses."""
    assert resolved == pi_tools.resolve(path, "/w")


@pytest.mark.parametrize("cwd", [None, "C:\\work"])
def test_a_relative_path_needs_a_folder_of_this_machine(cwd: str | None) -> None:
    """Without a folder to start from nothing is guessed; an absolute path stands by itself."""
    assert pi_tools.resolve("a.txt", cwd) is None
    assert pi_tools.resolve("/a.txt", cwd) == b"/a.txt"


ONE = {"oldText": "1", "newText": "2"}


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ({"edits": [ONE, {"oldText": "3", "newText": "4"}]}, [b"2", b"4"]),
        ({"edits": ONE}, [b"2"]),
        ({"edits": '[{"oldText":"1","newText":"2"}]'}, [b"2"]),
        ({"edits": "no json"}, [None]),
        ({**ONE}, [b"2"]),
        ({"edits": [{"oldText": "1", "newText": ""}]}, [None]),
        ({"edits": [7, {"newText": 8}]}, [None]),
        ({}, [None]),
    ],
)
def test_every_form_of_an_edit_names_its_file(
    arguments: dict[str, object], fragments: list[bytes | None]
) -> None:
    """A file is named once per replacement, in each form that pi takes, and a deletion leaves no trace."""
    call = pi_tools.call("c", "edit", {"path": "a", **arguments}, "/w", 5)

    assert tuple(FileNamed(b"/w/a", fragment=fragment) for fragment in fragments) == call.files
    assert (call.writes, call.at_ns) == ("named", 5)


@pytest.mark.parametrize(
    ("tool", "arguments", "writes"),
    [
        ("read", {"path": "a"}, "none"),
        ("grep", None, "none"),
        ("find", {}, "none"),
        ("ls", {}, "none"),
        ("write", {"path": "a", "content": "x"}, "named"),
        ("write", {"content": "x"}, "any"),
        ("write", None, "any"),
        ("edit", "garbage", "any"),
        ("bash", {"command": "ls"}, "any"),
        ("powershell", {"command": "ls"}, "any"),
        ("codemode", {"code": "1"}, "any"),
        ("somebodys_tool", {"path": "a"}, "any"),
    ],
)
def test_what_a_tool_may_write(tool: str, arguments: object, writes: str) -> None:
    """Only tools that are known to read, or whose file is known, are held to it."""
    assert writes == pi_tools.call("c", tool, arguments, "/w", None).writes


def test_a_write_gives_its_content_and_a_bad_one_does_not() -> None:
    """The content stands as UTF-8 afterwards; an argument of another type says nothing."""
    good = pi_tools.call("c", "write", {"path": "a", "content": "é\n"}, "/w", None)
    bad = pi_tools.call("c", "write", {"path": "a", "content": 7}, "/w", None)

    assert (FileNamed(b"/w/a", after="é\n".encode()),) == good.files
    assert (FileNamed(b"/w/a"),) == bad.files
