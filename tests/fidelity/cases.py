"""What an agent's shell can do to names, kinds, contents and modes: one table, a folder for each row."""

from __future__ import annotations

import os
import unicodedata

from tests.fidelity.play import Act, Case
from tests.fidelity.shell import (
    attribute,
    both,
    edit,
    folder,
    link,
    listener,
    mode,
    nothing,
    owner,
    pipe,
    put,
    remove,
    rename,
    replace,
    standing_deep,
    twin,
)

NFC, NFD = (unicodedata.normalize(form, "é").encode() for form in ("NFC", "NFD"))

NAMES = {
    "newline": b"new\nline",
    "only-newline": b"\n",
    "tab": b"\ttab\t",
    "quotes": b"'\"`$(x)",
    "backslash": b"back\\slash\\",
    "dash": b"-rf",
    "double-dash": b"--",
    "magic": b":(glob)**",
    "bang": b"!important",
    "hash": b"#comment",
    "glob": b"*?[a-z]{b}",
    "trailing-space": b"name ",
    "space": b" ",
    "trailing-dot": b"name.",
    "dots": b"...",
    "GIT": b".GIT",
    "gIt": b".gIt",
    "ntfs-git": b"git~1",
    "git-colon": b".git::$INDEX_ALLOCATION",
    "hfs-git": ".g\u200cit".encode(),
    "gitmodules": b".gitmodules",
    "git-space": b".git ",
    "gitkeep": b".gitkeep",
    "not-utf8": b"\xff\xfe\x80",
    "surrogate": b"\xed\xa0\x80",
    "control": b"\x01\x1b[31m\x7f",
    "override": "\u202egnp.exe".encode(),
    "longest": b"x" * 255,
    "longest-3-byte": "क".encode() * 85,
    "windows": b"CON",
    "colon": b"C:",
    "backup": b"file~",
    "private-like": b".recorder-notes",
    "private-config": b".recorder",
    "tmp-like": b".recorder-0123456789abcdef",
    "manifest-like": b"+notes",
    "notes": b"notes",
    "outside": b"outside",
    "index": b"index",
}
"""Each as a file, a folder and a link in a case of its own."""


def _name_cases() -> list[Case]:
    found = []
    for label, name in NAMES.items():
        before = both(
            put(b"over/" + name, b"old"),
            put(b"gone/" + name, b"gone"),
            put(b"deep/" + name + b"/" + name, b"deep"),
            folder(b"hollow/" + name),
            folder(b"links"),
            link(b"links/" + name, name),
            folder(b"made"),
        )
        act = both(
            put(b"over/" + name, b"new"),
            remove(b"gone/" + name),
            remove(b"deep/" + name),
            remove(b"hollow/" + name),
            remove(b"links/" + name),
            link(b"links/" + name, b"elsewhere"),
            put(b"made/" + name + b"/" + name, b"made"),
        )
        found.append(Case(f"name-{label}", before, act))
    return found


def _pairs() -> list[Case]:
    pairs = {"unicode": (NFC, NFD), "case": (b"Readme", b"README"), "case-git": (b".GIT", b".Git")}
    found = []
    for label, (one, other) in pairs.items():
        beside = both(put(one, b"1"), put(other, b"2"))
        found.append(Case(f"pair-{label}-beside", beside, both(edit(one, b"one"), remove(other))))
        found.append(Case(f"pair-{label}-rename", put(one, b"1"), rename(one, other)))
        found.append(Case(f"pair-{label}-folder", put(one + b"/x", b"1"), rename(one, other)))
        swap = both(rename(one, b"t"), rename(other, one), rename(b"t", other))
        found.append(Case(f"pair-{label}-swap", beside, swap))
    return found


STANDS: dict[str, Act] = {
    "file": put(b"x", b"a file\n"),
    "empty": put(b"x"),
    "folder": both(put(b"x/in", b"inside"), put(b"x/deep/er", b"deeper", 0o600), folder(b"x/hollow", 0o700)),
    "hollow": folder(b"x", 0o711),
    "link": link(b"x", b"real"),
    "dangling": link(b"x", b"nowhere"),
    "absent": nothing,
}


def _kind_cases() -> list[Case]:
    """Every kind turned into every other, with something beside it that links can lead to."""
    found = []
    beside = put(b"real/file", b"what the link leads to")
    for one, stands in STANDS.items():
        for other, comes in STANDS.items():
            if one != other:
                gone = nothing if one == "absent" else remove(b"x")
                found.append(Case(f"kind-{one}-to-{other}", both(beside, stands), both(gone, comes)))
    return found


LINK_TARGETS = {
    "dangling": b"nowhere/at/all",
    "absolute": b"/etc/passwd",
    "loop": b"l",
    "dot": b".",
    "up": b"../..",
    "longest": b"t/" * 2047 + b"t",
    "newline": b"a\nb",
    "not-utf8": b"\xff\xfe",
    "trailing-slash": b"real/",
    "space": b" ",
}


def _link_cases() -> list[Case]:
    found = []
    for label, target in LINK_TARGETS.items():
        found.append(Case(f"link-{label}-deleted", link(b"l", target), remove(b"l")))
        found.append(Case(f"link-{label}-made", nothing, link(b"l", target)))
        found.append(
            Case(f"link-{label}-changed", link(b"l", target), both(remove(b"l"), link(b"l", b"other")))
        )
    loop = both(link(b"a", b"b"), link(b"b", b"a"))
    found.append(Case("link-ring", loop, both(remove(b"a"), put(b"a", b"broken"))))
    return found


def _abc(*names: bytes) -> Act:
    return both(*(put(name, b"content of " + name, 0o600 + index) for index, name in enumerate(names)))


def _moves(*pairs: bytes) -> Act:
    """Renames, each told by two letters."""
    return both(*(rename(pair[:1], pair[1:]) for pair in pairs))


def _renames() -> list[Case]:
    folders = both(put(b"a/x", b"1"), put(b"a/y/z", b"2"), put(b"b/x", b"3", 0o600), folder(b"b/w"))
    return [
        Case("rename-chain", _abc(b"a", b"b", b"c"), _moves(b"cd", b"bc", b"ab")),
        Case("rename-cycle", _abc(b"a", b"b", b"c"), _moves(b"at", b"ca", b"bc", b"tb")),
        Case("rename-swap", _abc(b"a", b"b"), _moves(b"at", b"ba", b"tb")),
        Case("rename-over", _abc(b"a", b"b"), rename(b"a", b"b")),
        Case("rename-folder", folders, rename(b"a", b"c")),
        Case("rename-folder-swap", folders, _moves(b"at", b"ba", b"tb")),
        Case("rename-folder-into-itself", folders, both(
            rename(b"a", b"t"), folder(b"a"), rename(b"t", b"a/inner"))),
        Case("rename-folder-out", folders, both(rename(b"a/y", b"t"), remove(b"a"), rename(b"t", b"a"))),
        Case("rename-to-a-part-of-itself", put(b"a", b"1"), both(
            rename(b"a", b"t"), folder(b"a"), rename(b"t", b"a/a"))),
        Case("rename-link-over-folder", both(folders, link(b"l", b"a")), both(
            remove(b"b"), rename(b"l", b"b"))),
    ]  # fmt: skip


def _modes() -> list[Case]:
    found = []
    for bits in (0o000, 0o111, 0o200, 0o400, 0o444, 0o666, 0o777, 0o1644, 0o2755, 0o4755, 0o6711, 0o7777):
        name = f"{bits:04o}"
        found.append(Case(f"mode-file-to-{name}", put(b"f", b"x"), mode(b"f", bits)))
        found.append(Case(f"mode-file-from-{name}", put(b"f", b"x", bits), mode(b"f", 0o640)))
        found.append(Case(f"mode-file-{name}-replaced", put(b"f", b"x", bits), replace(b"f", b"y", 0o600)))
        found.append(Case(f"mode-file-{name}-deleted", put(b"f", b"x", bits), remove(b"f")))
        found.append(Case(f"mode-file-{name}-made", nothing, put(b"f", b"x", bits)))
    for bits in (0o500, 0o555, 0o700, 0o711, 0o777, 0o1777, 0o2775, 0o3770, 0o6755):
        name = f"{bits:04o}"
        shut = both(put(b"d/f", b"x"), mode(b"d", bits))
        empty = folder(b"d", bits)
        opened = both(mode(b"d", 0o755), remove(b"d"))
        found.append(Case(f"mode-folder-to-{name}", put(b"d/f", b"x"), mode(b"d", bits)))
        found.append(Case(f"mode-folder-from-{name}", shut, mode(b"d", 0o755)))
        found.append(Case(f"mode-folder-{name}-deleted", shut, opened))
        found.append(Case(f"mode-folder-{name}-made", nothing, shut))
        found.append(Case(f"mode-hollow-{name}-deleted", empty, opened))
        found.append(Case(f"mode-hollow-{name}-made", nothing, empty))
        again = both(mode(b"d", 0o755), edit(b"d/f", b"longer than before"), mode(b"d", bits))
        found.append(Case(f"mode-folder-{name}-edited-inside", shut, again))
    nested = both(put(b"a/b/c/f", b"x"), mode(b"a/b/c", 0o1711), mode(b"a/b", 0o2750), mode(b"a", 0o4700))
    found.append(Case("mode-folders-nested", nested, both(mode(b"a/b/c", 0o755), remove(b"a"))))
    return found


_BIG = bytes(range(256)) * 1000
CONTENTS = {
    "crlf": b"a\r\nb\r\n",
    "mixed-ends": b"a\r\nb\nc\rd",
    "nul": b"a\0b\0",
    "no-newline": b"no end",
    "utf16": "\ufeffhé\n".encode("utf-16-le"),
    "bom": b"\xef\xbb\xbfx\n",
    "empty": b"",
    "one-byte": b"\n",
    "big": _BIG,
    "ident": b"$Id$ $Id: 123 $\n",
    "format": b"$Format:%H$\n",
    "lfs-pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "conflict-marks": b"<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n",
}


def _content_cases() -> list[Case]:
    found = []
    for label, content in CONTENTS.items():
        found.append(Case(f"content-{label}-to-other", put(b"f.txt", content), edit(b"f.txt", b"other\n")))
        found.append(Case(f"content-other-to-{label}", put(b"f.txt", b"other\n"), edit(b"f.txt", content)))
        found.append(Case(f"content-{label}-deleted", put(b"f.txt", content), remove(b"f.txt")))
    touched = both(put(b"f", b"same"), put(b"g", b"same"))
    found.append(Case("content-only-touched", touched, both(
        lambda here: os.utime(here + b"/f", ns=(10**18, 10**18)), replace(b"g", b"same"))))  # fmt: skip
    backdated = both(edit(b"f", b"SAME"), lambda here: os.utime(here + b"/f", ns=(10**18, 10**18)))
    old = both(put(b"f", b"same"), lambda here: os.utime(here + b"/f", ns=(10**18, 10**18)))
    found.append(Case("content-same-size-and-time", old, backdated))
    return found


def _sparse(name: bytes) -> Act:
    def act(here: bytes) -> None:
        with open(here + b"/" + name, "wb") as file:
            file.truncate(900_000)
            file.seek(500_000)
            file.write(b"data")

    return act


LINKS_LOST = frozenset({"links"})


def _hard_links() -> list[Case]:
    pair = both(put(b"a", b"one"), twin(b"a", b"b"))
    three = both(pair, put(b"d/x", b"1"), twin(b"a", b"d/c"))
    return [
        Case("twins-edited", pair, edit(b"a", b"other")),
        Case("twins-mode", pair, mode(b"a", 0o600)),
        Case("twins-three-edited", three, edit(b"d/c", b"other")),
        Case("twins-one-deleted", pair, remove(b"b"), LINKS_LOST),
        Case("twins-all-deleted", pair, both(remove(b"a"), remove(b"b")), LINKS_LOST),
        Case("twins-made", put(b"a", b"one"), twin(b"a", b"b"), LINKS_LOST),
        Case("twins-made-and-edited", put(b"a", b"one"), both(
            twin(b"a", b"b"), edit(b"b", b"other")), LINKS_LOST),
        Case("twins-parted", pair, replace(b"a", b"other"), LINKS_LOST),
        Case("twins-parted-alike", pair, replace(b"a", b"one"), LINKS_LOST),
        Case("twins-moved", pair, rename(b"b", b"c"), LINKS_LOST),
        Case("twins-moved-into-a-folder", three, rename(b"b", b"d/b"), LINKS_LOST),
        Case("twins-turned-round", both(pair, put(b"c", b"other")), both(
            remove(b"b"), twin(b"c", b"b")), LINKS_LOST),
        Case("twin-links", both(link(b"a", b"x"), twin(b"a", b"b")), both(
            remove(b"a"), link(b"a", b"y")), LINKS_LOST),
    ]  # fmt: skip


def _attributes() -> list[Case]:
    red = both(put(b"f", b"1"), attribute(b"f", "user.colour", b"red\0"))
    hollow = both(folder(b"d"), attribute(b"d", "user.a", b"b"))
    return [
        Case("attributes-edited", red, edit(b"f", b"2")),
        Case("attributes-replaced", red, replace(b"f", b"2")),
        Case("attributes-changed", red, both(attribute(b"f", "user.colour", b"blue"), edit(b"f", b"2"))),
        Case("attributes-alone", red, attribute(b"f", "user.colour", b"blue")),
        Case("attributes-deleted", red, remove(b"f"), frozenset({"attributes"})),
        Case("attributes-folder", both(hollow, put(b"d/f", b"1")), edit(b"d/f", b"2")),
        Case("attributes-folder-mode", hollow, mode(b"d", 0o700)),
        Case("attributes-twins", both(red, twin(b"f", b"g")), edit(b"f", b"2")),
    ]  # fmt: skip


def _access_list(*entries: tuple[int, int, int]) -> bytes:
    """An access list as an extended attribute (acl(5), version 2): tag, permissions, whose."""
    return b"\2\0\0\0" + b"".join(
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + whose.to_bytes(4, "little", signed=whose < 0)
        for tag, bits, whose in entries
    )


def _access_lists() -> list[Case]:
    """A named user may more than the others; a folder hands its list on to what is made in it."""
    acl = _access_list((1, 6, -1), (2, 6, 1234), (4, 4, -1), (16, 6, -1), (32, 4, -1))
    listed = both(put(b"f", b"1", 0o664), attribute(b"f", "system.posix_acl_access", acl))
    handed = both(folder(b"d"), attribute(b"d", "system.posix_acl_default", acl), put(b"d/f", b"1"))
    return [
        Case("acl-edited", listed, edit(b"f", b"2")),
        Case("acl-replaced", listed, replace(b"f", b"2")),
        Case("acl-mode", listed, mode(b"f", 0o600)),
        Case("acl-deleted", listed, remove(b"f"), frozenset({"attributes"})),
        Case("acl-handed-on", handed, both(edit(b"d/f", b"2"), put(b"d/g", b"3"))),
        Case("acl-handed-on-deleted", handed, remove(b"d/f")),
        Case("acl-handed-on-folder", handed, remove(b"d"), frozenset({"attributes"})),
    ]


def _special() -> list[Case]:
    return [
        Case("special-beside", both(pipe(b"p"), listener(b"s"), put(b"f", b"1")), edit(b"f", b"2")),
        Case("special-renamed", both(pipe(b"p"), put(b"f", b"1")), both(
            rename(b"p", b"q"), edit(b"f", b"2")), frozenset({"special"})),
        Case("special-made", put(b"f", b"1"), both(pipe(b"p"), listener(b"s"), edit(b"f", b"2")),
             frozenset({"special"})),
    ]  # fmt: skip


def _owners() -> list[Case]:
    """Only root can give files away."""
    theirs = both(put(b"f", b"1", 0o4750), owner(b"f", 1234, 2345), mode(b"f", 0o4750))
    return [
        Case("owner-edited", theirs, edit(b"f", b"2")),
        Case("owner-mode", theirs, mode(b"f", 0o600)),
        Case("owner-deleted", theirs, remove(b"f"), frozenset({"owner"})),
        Case("owner-link", both(link(b"l", b"a"), owner(b"l", 1234, 2345)), both(
            remove(b"l"), link(b"l", b"b"), owner(b"l", 1234, 2345))),
        Case("owner-folder", both(put(b"d/f", b"1"), owner(b"d", 1234, 2345)), both(
            mode(b"d", 0o700), edit(b"d/f", b"2"))),
        Case("owner-given", put(b"f", b"1"), both(edit(b"f", b"2"), owner(b"f", 1234, 2345))),
    ]  # fmt: skip


def _deep() -> list[Case]:
    """As long as a path may be so that git can be asked about it."""
    name, levels = b"d" * 100, 30

    def make(here: bytes) -> None:
        with standing_deep(here, name, levels):
            put(b"f", b"old")(b".")
            put(b"gone", b"gone")(b".")

    def act(here: bytes) -> None:
        with standing_deep(here, name, levels):
            edit(b"f", b"new")(b".")
            remove(b"gone")(b".")
            put(b"made/f", b"made")(b".")

    return [Case("deep", make, act), Case("deep-made", nothing, make)]


PLAIN: list[Case] = [
    *_name_cases(),
    *_pairs(),
    *_kind_cases(),
    *_link_cases(),
    *_renames(),
    *_modes(),
    *_content_cases(),
    Case("sparse-deleted", _sparse(b"s"), remove(b"s")),
    Case("sparse-made", nothing, _sparse(b"s")),
    *_hard_links(),
    *_attributes(),
    *_access_lists(),
    *_special(),
    *_deep(),
]
"""What anybody's shell can do."""

ROOTS: list[Case] = _owners()
"""What only root's shell can do."""

_UNREADABLE = ("0000", "0111", "0200")
READABLE: list[Case] = [
    case
    for case in PLAIN
    if case.name.startswith(("mode", "kind", "twin", "acl", "rename-f"))
    and not (case.name.startswith("mode-file") and any(bits in case.name for bits in _UNREADABLE))
]
"""What its owner can read all the time."""
