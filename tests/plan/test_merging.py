"""Merging contents by git: nothing of anybody's is lost, and no byte is touched that nobody changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder import merging
from recorder.merging import merge_texts
from recorder.planning.threeway import Unmerged

QUICK = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("merging") / "bare.git"
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    return os.fsencode(folder)


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "merged"),
    [
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", b"A\nb\nC\n"),
        (b"a\r\nb\r\nc\r\n", b"A\r\nb\r\nc\r\n", b"a\r\nb\r\nC\r\n", b"A\r\nb\r\nC\r\n"),
        (b"a\r\nb\nc\r\n", b"A\nb\nc\r\n", b"a\r\nb\nC\n", b"A\nb\nC\n"),
        (b"a\nb\nc", b"A\nb\nc", b"a\nb\nC", b"A\nb\nC"),
        (b"a\nb\nc", b"a\nb\nc\n", b"A\nb\nc", b"A\nb\nc\n"),
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nc", b"A\nb\nc"),
        (b"\xe9\nb\n\xff\xfe\n", b"\xe8\nb\n\xff\xfe\n", b"\xe9\nb\n\x80\n", b"\xe8\nb\n\x80\n"),
        (b"x \nb\n\ty\n", b"x\nb\n\ty\n", b"x \nb\ny\n", b"x\nb\ny\n"),
        (b"a\nb\nc\n", b"b\nc\n", b"a\nb\n", b"b\n"),
        (b"a\nb\nc\n", b"b\nc\n", b"b\nc\nd\n", b"b\nc\nd\n"),
        (b"a\nb\n", b"n\na\nb\n", b"n\na\nb\nm\n", b"n\na\nb\nm\n"),
        (b"", b"same\n", b"same\n", b"same\n"),
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\n<<<<<<< ours\n", b"A\nb\n<<<<<<< ours\n"),
    ],
)  # fmt: skip
def test_both_sides_changes_are_made(
    repository: bytes, base: bytes, theirs: bytes, ours: bytes, merged: bytes
) -> None:
    """Line endings, final newlines, spaces and bytes of any encoding stay; what both did is done once."""
    assert merge_texts(base, theirs, ours, git_dir=repository) == merged


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "why"),
    [
        (b"a\n", b"b\n", b"c\n", "the same lines"),
        (b"one", b"two", b"three", "the same lines"),
        (b"a\rb\rc\r", b"A\rb\rc\r", b"a\rb\rC\r", "the same lines"),
        (b"", b"the old\n", b"by hand\n", "the same lines"),
        (b"a\nb\n", b"", b"a\nb\nc\n", "the same lines"),
        (b"a\nb\n", b"A\nb\n", b"a\nB\n", "the same lines"),
        (b"a\nb", b"a\nb\nc", b"a\nb\nd", "the same lines"),
        (b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\n\0\n", "is not text"),
        (b"a\0\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", "is not text"),
        (b"x" * 9000 + b"\0\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", "is not text"),
        (*(text.encode("utf-16") for text in ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n")), "is not text"),
        (b"\n" * ((16 << 20) + 1), b"a\n", b"b\n", "more than 16 MiB"),
    ],
)  # fmt: skip
def test_what_is_not_clean_is_not_merged(
    repository: bytes, base: bytes, theirs: bytes, ours: bytes, why: str
) -> None:
    """The same or neighbouring lines, all on one line, an emptied file, what is no text or too large."""
    merged = merge_texts(base, theirs, ours, git_dir=repository)

    assert isinstance(merged, Unmerged) and why in merged.why


def test_many_conflicts_are_no_clean_merge(repository: bytes) -> None:
    """Their number is the exit status of git, of which a process has 256."""
    for count in (127, 128, 256, 512):
        base, theirs, ours = (
            b"".join(b"%b%d\n=%d\n-%d\n" % (side, n, n, n) for n in range(count))
            for side in (b"b", b"t", b"o")
        )
        assert isinstance(merge_texts(base, theirs, ours, git_dir=repository), Unmerged), count


def test_git_that_fails_or_hangs_loses_nothing(
    repository: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No merge, with the reason; not what a broken git wrote out."""
    monkeypatch.setattr(merging, "DEADLINE", 0.3)
    for script, why in (
        ("#!/bin/sh\necho half\nexit 255\n", "git could not merge it"),
        ("#!/bin/sh\necho half\nkill -9 $$\n", "git could not merge it"),
        ("#!/bin/sh\nexec sleep 60\n", "within 0.3 seconds"),
    ):
        (tmp_path / "git").write_text(script)
        (tmp_path / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
        merged = merge_texts(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", git_dir=repository)
        assert isinstance(merged, Unmerged) and why in merged.why, merged


def test_the_users_configuration_has_no_say(
    repository: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left in the temporary folder."""
    config = tmp_path / "config"
    config.write_text("[merge]\n\tconflictStyle = nonsense\n[core]\n\tautocrlf = true\n\teol = crlf\n")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, str(config))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    assert merge_texts(b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n", git_dir=repository) == b"A\nb\nC\n"
    assert merge_texts(b"a\n", b"b\n", b"c\n", git_dir=repository) == Unmerged(
        "the same lines were changed again since"
    )
    assert list((tmp_path / "temporary").iterdir()) == []


# ---- whatever the texts are

WORDS = st.lists(st.sampled_from(["", "}", "x", "y", "z"]), max_size=3)
SLOT = st.tuples(st.sampled_from(["session", "person", "nobody"]), WORDS, WORDS)
END = st.sampled_from(["\n", "\r\n"])


def text(slots: list[tuple[str, list[str], list[str]]], changed: set[str], end: str, final: bool) -> bytes:
    """A file of places that one owner each may change, kept apart by lines that nobody changes."""
    lines = ["first"]
    for number, (owner, old, new) in enumerate(slots):
        lines += [f"{word} {number}" for word in (new if owner in changed else old)]
        lines.append(f"between {number}")
    return (end.join(lines) + (end if final else "")).encode()


@QUICK
@given(st.lists(SLOT, min_size=1, max_size=8), END, st.booleans())
def test_apart_from_each_other_everything_is_merged(
    repository: bytes, slots: list[tuple[str, list[str], list[str]]], end: str, final: bool
) -> None:
    """Where session and person changed different places, taking the session's back leaves exactly the
    person's."""
    base, theirs, ours, wanted = (
        text(slots, changed, end, final)
        for changed in ({"session"}, set(), {"session", "person"}, {"person"})
    )

    assert merge_texts(base, theirs, ours, git_dir=repository) == wanted


LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"}", b"", b"p", b"q", b"=======", b"a\r"]), max_size=8)


@QUICK
@given(LINES, LINES, LINES, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_a_merge_has_the_lines_of_both_sides_and_no_others(
    repository: bytes, base: list, theirs: list, ours: list, final: tuple[bool, bool, bool]
) -> None:
    """Of any three texts: every line that either side added is there, and no marker of a conflict."""
    texts = [
        b"\n".join(lines) + (b"\n" if ended and lines else b"")
        for lines, ended in zip((base, theirs, ours), final, strict=True)
    ]

    merged = merge_texts(texts[0], texts[1], texts[2], git_dir=repository)

    if isinstance(merged, Unmerged):
        return
    before, taken, standing = (set(one.split(b"\n")) for one in texts)
    found = set(merged.split(b"\n"))
    assert (taken | standing) - before <= found <= taken | standing | {b""}
