"""Bytes are bytes, whatever the project asks git to make of them, and whatever a session makes of that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.capture.helpers import make_repository, run_git
from tests.fidelity.play import there_and_back
from tests.fidelity.shell import both, edit, put, remove
from tests.flow.within import Within

CONTENTS = {
    b"crlf.txt": b"a\r\nb\r\n",
    b"lf.txt": b"a\nb\n",
    b"mixed.txt": b"a\r\nb\nc\rd",
    b"ident.c": b"/* $Id$ */ $Id: abc $\n",
    b"wide.utf": "\ufeffhé\r\n".encode("utf-16"),
    b"broken.utf": b"\xff\xfeodd",
    b"big.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    b"raw.bin": bytes(range(256)),
    b"hash.subst": b"$Format:%H$\n",
    b"shout.up": b"shout\n",
}

ATTRIBUTES = {
    "none": b"",
    "auto": b"* text=auto\n",
    "crlf": b"* text eol=crlf\n",
    "everything": (
        b"* text=auto eol=crlf ident\n*.utf text working-tree-encoding=UTF-16\n"
        b"*.bin filter=lfs -text\n*.up filter=shout\n*.subst export-subst\n"
    ),
    "binary": b"* -text binary\n",
}


@pytest.mark.parametrize("autocrlf", ["true", "input", "false"])
@pytest.mark.parametrize(
    ("before", "during"), [("none", "everything"), ("everything", "crlf"), ("auto", "binary")]
)
def test_every_byte_comes_back(
    before: str, during: str, autocrlf: str, within: Within, root: Path, tmp_path: Path
) -> None:
    """With real filter commands set up, attributes that change with the contents in one run, and every mode
    of line endings: what was there is what comes back, and no filter is ever run."""
    make_repository(root)
    here, ran = os.fsencode(root), tmp_path / "ran"
    put(b".gitattributes", ATTRIBUTES[before])(here)
    both(*(put(name, content) for name, content in CONTENTS.items()))(here)
    run_git(root, "-c", "core.safecrlf=false", "add", "--", ".", ":!broken.utf")
    run_git(root, "commit", "-q", "-m", "x")
    for key, value in {
        "core.autocrlf": autocrlf,
        "core.safecrlf": "true",
        "filter.lfs.clean": f"touch {ran}; sed s/size/SIZE/",
        "filter.lfs.smudge": f"touch {ran}; sed s/SIZE/size/",
        "filter.lfs.required": "true",
        "filter.shout.clean": f"touch {ran}; tr a-z A-Z",
        "filter.shout.smudge": f"touch {ran}; tr A-Z a-z",
    }.items():
        run_git(root, "config", key, value)
    both(*(put(b"untracked-" + name, content) for name, content in CONTENTS.items()))(here)
    ran.unlink(missing_ok=True)

    def act() -> None:
        put(b".gitattributes", ATTRIBUTES[during])(here)
        for index, (name, content) in enumerate(CONTENTS.items()):
            for path in (name, b"untracked-" + name):
                changed = content.replace(b"\n", b"\r\n") + b"\0" * index
                (remove(path) if index % 3 == 2 else edit(path, changed))(here)

    played = there_and_back(within, root, act)

    assert [one["status"] for one in played.told] == ["done"] * 3
    first, after, rewound, undone, redone = (
        {path: one.what for path, one in stop.items()} for stop in played.stops
    )
    assert (rewound, undone, redone) == (first, after, first)
    assert not ran.exists()
