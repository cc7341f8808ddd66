import os
import time
from pathlib import Path

import pytest

from recorder import git
from recorder.errors import StoreFailure
from recorder.states import ABSENT, SKIPPED, UNKNOWN
from tests.capture.helpers import commit_all, look_once, make_repository, open_tree, run_git, write


def skipped_paths(tree: object, commit: str) -> dict[bytes, str]:
    return {note.path: note.why for note in tree.notes(commit)[0]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["repository", "folder"])
def test_ignored_files_are_skipped_in_repositories_and_plain_folders(tmp_path: Path, kind: str) -> None:
    """The same ignore files hold in both; what is in an ignored folder is skipped with it, not absent."""
    root = tmp_path / "w"
    if kind == "repository":
        make_repository(root)
        write(root / ".git/info/exclude", "secret\n")
    write(root / ".gitignore", "*.log\n!keep.log\nbuild/\n\\:odd\n")
    write(root / "sub/.gitignore", "/local\n!x.log\n")
    for name in ["a.log", "keep.log", "build/deep/x", "sub/x.log", "sub/local", "local", ":odd", "secret"]:
        write(root / name)
    tree, look = look_once(tmp_path, root)

    expected = {b"a.log", b"build", b"sub/local", b":odd"} | ({b"secret"} if kind == "repository" else set())
    assert set(skipped_paths(tree, look.commit)) == expected
    assert look.skipped == len(expected)
    assert tree.state(look.commit, b"build/deep/x") == SKIPPED
    assert tree.state(look.commit, b"sub/x.log").kind == "file"
    assert tree.state(look.commit, b"nothing") == ABSENT


def test_tracked_files_are_captured_whatever_the_rules_and_the_size(tmp_path: Path) -> None:
    """A tracked file is never ignored, also in an ignored folder, and no size leaves it out."""
    root = make_repository(tmp_path / "w")
    write(root / ".gitignore", "build/\n*.dat\n")
    write(root / "build/kept", "x")
    write(root / "big.dat", b"b" * 3_000_000)
    run_git(root, "add", "-f", "build/kept", "big.dat")
    write(root / "build/other", "y")
    write(root / "large", b"l" * 3_000_000)
    tree, look = look_once(tmp_path, root)

    assert tree.state(look.commit, b"build/kept").kind == "file"
    assert tree.state(look.commit, b"big.dat").kind == "file"
    assert skipped_paths(tree, look.commit) == {
        b"build/other": "ignored by git's rules",
        b"large": "untracked and larger than 2 MiB",
    }


def test_the_users_own_excludes_count_and_nothing_else_of_the_users_configuration(tmp_path: Path) -> None:
    """The configured global excludes file, or else the default one, is honoured."""
    root = make_repository(tmp_path / "w")
    home = Path(os.environ["HOME"])
    write(home / ".config/git/ignore", "*.default\n")
    write(root / "a.default")
    write(root / "a.mine")
    tree, first = look_once(tmp_path, root)
    write(home / "my-excludes", "*.mine\n")
    write(home / ".gitconfig", "[core]\n\texcludesFile = ~/my-excludes\n\tignoreCase = true\n")
    for name in ["b.default", "b.mine", "c.MINE"]:
        write(root / name)
    second = tree.capture(previous=None)

    assert set(skipped_paths(tree, first.commit)) == {b"a.default"}
    assert set(skipped_paths(tree, second.commit)) == {b"a.mine", b"b.mine"}


def test_a_broken_configuration_of_the_users_ignores_nothing_by_mistake(tmp_path: Path) -> None:
    """Where the user's excludes cannot be told, what git does not track is unknown; what it tracks is not."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    run_git(root, "add", "a")
    write(root / "b", "1")
    write(Path(os.environ["HOME"]) / ".gitconfig", "[core\n")
    tree, look = look_once(tmp_path, root)
    assert [note.path for note in look.unknown] == [b"b"]
    assert tree.state(look.commit, b"a").kind == "file"


def test_changed_rules_are_seen_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ignore file, an exclude file or the index that changes is read anew, in one open process."""
    monkeypatch.setattr("recorder.capturing.ignore.RACY_NS", 0)
    root = make_repository(tmp_path / "w")
    write(make_repository(root / "nested") / "n")
    for name in ["a", "b", "c"]:
        write(root / name)
    tree = open_tree(tmp_path, root)

    def skipped() -> set[bytes]:
        return set(skipped_paths(tree, tree.capture(previous=None).commit)) - {b"nested/.git"}

    for ignored in ["a", "b", "c"]:
        write(root / ".gitignore", ignored + "\n")
        assert skipped() == {ignored.encode()}
    write(root / ".gitignore", "\n")
    write(root / ".git/info/exclude", "a\n")
    assert skipped() == {b"a"}
    run_git(root, "add", "-f", "a")
    assert skipped() == set()
    write(root / "nested/.git/info/exclude", "n\n")
    assert skipped() == {b"nested/n"}


def test_what_was_captured_stays_captured(tmp_path: Path) -> None:
    """A captured path that grows, or that a new rule ignores, is still captured; new ones are not."""
    root = make_repository(tmp_path / "w")
    write(root / "grows", "small")
    write(root / "out/a", "1")
    tree, first = look_once(tmp_path, root)
    write(root / "grows", b"g" * 3_000_000)
    write(root / ".gitignore", "out/\n")
    write(root / "out/a", "2")
    write(root / "out/b", "3")
    second = tree.capture(previous=first.commit)

    assert {change.path for change in second.delta} == {b"grows", b"out/a", b".gitignore"}
    assert set(skipped_paths(tree, second.commit)) == {b"out/b"}
    (root / "out/a").unlink()
    third = tree.capture(previous=second.commit)
    assert [(c.path, c.after) for c in third.delta] == [(b"out/a", ABSENT)]


def test_a_dead_ignore_query_is_never_nothing_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where git dies on a path, that path is unknown; where it cannot answer at all, what is new is unknown
    and what was captured stays; a later capture heals."""
    root = make_repository(tmp_path / "w")
    write(root / ".gitignore", "*.log\n")
    write(root / "old", "1")
    tree, first = look_once(tmp_path, root)
    for name in ["a.log", "bad", "c.log", "d"]:
        write(root / name)
    real = git.run

    def dies_on_bad(arguments: list[str], **options: object) -> git.Answer:
        stdin = options.get("stdin") or b""
        assert isinstance(stdin, bytes)
        if "check-ignore" not in arguments or b"./bad\0" not in stdin:
            return real(arguments, **options)  # type: ignore[arg-type]
        before = stdin[: stdin.index(b"./bad\0")]
        answer = real(arguments, **{**options, "stdin": before})  # type: ignore[arg-type]
        return git.Answer(128, answer.out, "fatal: bad things\n")

    monkeypatch.setattr("recorder.git.run", dies_on_bad)
    second = tree.capture(previous=first.commit)
    assert [(n.path, n.why) for n in second.unknown] == [
        (b"bad", "git cannot say whether it is ignored: fatal: bad things")
    ]
    assert set(skipped_paths(tree, second.commit)) == {b"a.log", b"c.log"}

    def is_dead(arguments: list[str], **options: object) -> git.Answer:
        raise StoreFailure("git was not done within 120 seconds and was stopped")

    monkeypatch.setattr("recorder.git.run", is_dead)
    write(root / ".gitignore", "*.log\n\n")
    write(root / "new.log")
    write(root / "old", "2")
    third = tree.capture(previous=second.commit)
    assert tree.state(third.commit, b"old").kind == "file"
    assert {note.path for note in third.unknown} == {b"a.log", b"bad", b"c.log", b"new.log"}
    assert tree.state(third.commit, b"new.log") == UNKNOWN
    monkeypatch.setattr("recorder.git.run", real)
    fourth = tree.capture(previous=third.commit)
    assert fourth.unknown == ()
    assert tree.state(fourth.commit, b"new.log") == SKIPPED


def test_a_broken_repository_leaves_what_is_known(tmp_path: Path) -> None:
    """A damaged config or index spoils no capture: what was captured goes on, the rest is unknown."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    commit_all(root)
    tree, first = look_once(tmp_path, root)
    tree.close()
    (root / ".git/config").write_bytes(b"\0" * 50)
    write(root / "a", "2")
    write(root / "b", "new")
    with open_tree(tmp_path, root) as tree:
        second = tree.capture(previous=first.commit)
        assert [change.path for change in second.delta] == [b"a", b"b"]
        assert [note.path for note in second.unknown] == [b"b"]


def test_settings_exclude_and_include(tmp_path: Path) -> None:
    """`exclude` leaves out, also what was captured; `include_ignored` takes ignored files in."""
    root = make_repository(tmp_path / "w")
    write(root / ".gitignore", "out/\n*.tmp\nvendor/\n")
    for name in ["secret/key", "a.tmp", "out/config/x", "out/other", "vendor/v", "plain", "b.pem"]:
        write(root / name)
    first = open_tree(tmp_path, root).capture(previous=None)
    tree = open_tree(
        tmp_path, root, exclude=("secret/", "*.pem"), include_ignored=("out/config/", "vendor/", "a.tmp")
    )
    look = tree.capture(previous=first.commit)

    assert skipped_paths(tree, look.commit) == {
        b"secret": "excluded by the settings",
        b"b.pem": "excluded by the settings",
        b"out/other": "ignored by git's rules",
    }
    assert tree.state(look.commit, b"out/config/x").kind == "file"
    assert tree.state(look.commit, b"vendor/v").kind == "file"
    assert {c.path: c.after.kind for c in look.delta if c.before.present} == {
        b"secret": "skipped",
        b"secret/key": "skipped",
        b"b.pem": "skipped",
    }


def test_a_file_that_is_excluded_and_named_is_one_path(tmp_path: Path) -> None:
    """Captured before by itself and now because a tool named it: nothing changed."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    first = open_tree(tmp_path, root).capture(previous=None)
    tree = open_tree(tmp_path, root, exclude=("a",))
    second = tree.capture(previous=first.commit, named=[os.fsencode(root / "a")])
    assert second.delta == ()
    assert tree.state(second.commit, b"a") == tree.state(first.commit, b"a")


def test_small_ignored_files_of_a_persons_own_are_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ignored `.env*` and `*.local*` files are captured up to a size and a number."""
    monkeypatch.setattr("recorder.capturing.choice.MAX_SMALL_IGNORED_FILES", 2)
    root = make_repository(tmp_path / "w")
    write(root / ".gitignore", "*\n!.gitignore\n")
    write(root / ".env", b"x" * 65_537)
    tree, look = look_once(tmp_path, root)
    assert set(skipped_paths(tree, look.commit)) == {b".env"}
    for name in [".env.dev", "a.local.json"]:
        write(root / name, "s")
    look = tree.capture(previous=None)
    assert set(skipped_paths(tree, look.commit)) == {b".env"}
    write(root / "z.local", "s")
    assert tree.capture(previous=None).files == look.files == 3


def test_names_of_a_rewind_and_of_git_are_never_captured(tmp_path: Path) -> None:
    """Private names and `.git` are in no capture, and no state of theirs is ever a known one; what only
    begins as a private name does is somebody's file."""
    root = make_repository(tmp_path / "w")
    private = f".recorder-{'0' * 16}-{'1' * 20}r"
    write(root / private, "x")
    write(root / "sub" / private / "y", "x")
    theirs = [".recorder.toml", ".recorder-notes", f".recorder-{'0' * 16}", private + ".bak"]
    for name in theirs:
        write(root / name, "x")
    tree, look = look_once(tmp_path, root)

    assert {path for path, _ in tree.walk(look.commit)} == {b"sub", *map(str.encode, theirs)}
    for path in [b".git/config", private.encode(), f"sub/{private}/y".encode()]:
        assert tree.state(look.commit, path) == SKIPPED


def test_files_that_come_and_go_leave_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that vanishes between the listing and the reading is absent, not unknown."""
    root = make_repository(tmp_path / "w")
    write(root / "kept", "x")
    write(root / "a.tmp.123.0123456789ab", "half")
    from recorder.capturing import looking

    real = os.open

    def vanishing(name: object, *arguments: object, **options: object) -> int:
        if name == b"a.tmp.123.0123456789ab":
            (root / "a.tmp.123.0123456789ab").unlink(missing_ok=True)
        return real(name, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(looking.os, "open", vanishing)
    tree, look = look_once(tmp_path, root)
    assert look.unknown == ()
    assert [path for path, _ in tree.walk(look.commit)] == [b"kept"]


def test_a_listing_goes_on_where_a_name_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is gone before its status is read takes nothing else with it."""
    from recorder.capturing import scan

    root = make_repository(tmp_path / "w")
    write(root / "kept", "x")
    write(root / "sub/kept", "y")

    def vanished(folder: int) -> list[tuple[bytes, os.stat_result]]:
        raise FileNotFoundError

    real = os.listdir
    tree = open_tree(tmp_path, root)
    monkeypatch.setattr(scan, "_names", vanished)
    monkeypatch.setattr(scan.os, "listdir", lambda folder: [*real(folder), "vanished"])
    look = tree.capture(previous=None)
    assert look.unknown == ()
    assert [path for path, _ in tree.walk(look.commit)] == [b"kept", b"sub", b"sub/kept"]


def test_a_file_that_keeps_changing_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes under every reading is unknown with the reason; the rest is captured."""
    root = make_repository(tmp_path / "w")
    write(root / "busy", "x")
    write(root / "calm", "y")
    from recorder.capturing import looking

    real = os.read

    def writing(descriptor: int, size: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/busy"):
            write(root / "busy", str(time.time_ns()) * 3)
        return real(descriptor, size)

    monkeypatch.setattr(looking.os, "read", writing)
    tree, look = look_once(tmp_path, root)
    assert [(note.path, note.why) for note in look.unknown] == [(b"busy", "changing while it was read")]
    assert tree.state(look.commit, b"calm").kind == "file"
    monkeypatch.undo()
    assert tree.capture(previous=look.commit).unknown == ()
