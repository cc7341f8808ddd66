"""The hands at work: what a shell, a tool, a person and git do to a project's folder, at random."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.capture.helpers import commit_all, make_repository
from tests.cases.stage import git
from tests.storms.contents import SLOTS, edited, is_text, text

NAMES = ("t0", "t1", "t2", "t3", "d/t4", "d/e/t5", "odd name ä\n", "-x")
"""Files that everybody works on."""
FOLDERS = ("d", "d/e", "f", "g/h")
ME = ("-c", "user.name=p", "-c", "user.email=p@example.invalid")


class Hands:
    """`chance` decides; each content that is made is one of its kind. Some are gentle: they edit texts."""

    def __init__(self, chance: random.Random, root: Path) -> None:
        self.chance, self.root = chance, root
        self.gentle = chance.random() < 0.4
        self._made = 0

    def word(self) -> str:
        self._made += 1
        return f"word-{self._made}"

    # ---- the beginning

    def furnish(self) -> None:
        """Everything that a tree can hold."""
        make_repository(self.root)
        for name in (*NAMES[:5], "d/crlf"):
            end = b"\r\n" if name.endswith("crlf") else b"\n"
            self._put(self.root / name, text([self.word() for _ in range(SLOTS)], end))
        self._put(self.root / "binary", b"\0\xff" + self.word().encode())
        self._put(self.root / "empty", b"")
        (self.root / "run.sh").write_text("#!/bin/sh\n")
        (self.root / "run.sh").chmod(0o750)
        (self.root / "link").symlink_to("t0")
        (self.root / "nothing").mkdir(mode=0o700)
        commit_all(self.root)
        self._put(self.root / "one", self.word().encode())
        os.link(self.root / "one", self.root / "two")

    # ---- single deeds, each on a path of its choice

    def files(self) -> list[Path]:
        """Files and links, not through links."""
        found = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name != ".git"]
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            found += [Path(folder) / name for name in [*names, *links]]
        return sorted(found)

    def edit(self, path: Path | None = None) -> None:
        """One slot of a text, in place."""
        texts = [one for one in self.files() if not one.is_symlink() and is_text(one.read_bytes())]
        often = [one for one in texts if one.name in ("t0", "t1")]
        if path is None and texts:
            path = self.chance.choice(often if often and self.chance.random() < 0.5 else texts)
        if path is not None:
            path.write_bytes(edited(path.read_bytes(), self.chance.randrange(SLOTS), self.word()))

    def make(self) -> None:
        """A file of any kind where nothing stands."""
        path = self._free()
        if path is None:
            return
        kind = self.chance.choice(["text", "text", "binary", "empty", "crlf", "link", "executable"])
        if kind == "link":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(self.chance.choice(["nowhere", "t0", "d", self.word()]))
            return
        words = [self.word() for _ in range(SLOTS)]
        contents = {"binary": b"\0" + self.word().encode(), "empty": b"", "crlf": text(words, b"\r\n")}
        self._put(path, contents.get(kind, text(words)))
        if kind == "executable":
            path.chmod(0o755)

    def overwrite(self) -> None:
        """Another content altogether; a link becomes a file."""
        path = self._any()
        if path is not None:
            if path.is_symlink():
                path.unlink()
            path.write_bytes(self.word().encode() + b"\n")

    def delete(self) -> None:
        path = self._any()
        if path is not None:
            path.unlink()

    def mode(self) -> None:
        path = self._any()
        if path is not None and not path.is_symlink():
            path.chmod(self.chance.choice([0o600, 0o644, 0o755, 0o4750]))

    def hard_link(self) -> None:
        path, to = self._any(), self._free()
        if path is not None and to is not None and not path.is_symlink():
            to.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, to)

    def rename(self) -> None:
        path, to = self._any(), self._free()
        if path is not None and to is not None:
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)

    def make_folder(self) -> None:
        path = self._free()
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(self.chance.choice([0o755, 0o700]))

    def rename_folder(self) -> None:
        path, to = self._folder(), self._free()
        if path is not None and to is not None and not to.is_relative_to(path):
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)

    def remove_folder(self) -> None:
        path = self._folder()
        if path is not None:
            shutil.rmtree(path)

    def swap(self) -> None:
        """A file becomes a folder, or the reverse."""
        if self.chance.random() < 0.5 and (path := self._any()) is not None:
            path.unlink()
            path.mkdir()
            self._put(path / "in", self.word().encode())
        elif (folder := self._folder()) is not None:
            shutil.rmtree(folder)
            self._put(folder, self.word().encode())

    def work(self) -> None:
        """What a shell does."""
        often = [self.edit, self.edit, self.edit, self.make, self.make, self.overwrite, self.delete]
        seldom = [self.mode, self.hard_link, self.rename, self.make_folder, self.rename_folder]
        wild = [self.remove_folder, self.swap]
        for _ in range(self.chance.randint(1, 4)):
            deeds = [self.edit] * 6 + [self.make] if self.gentle else [*often, *seldom, *wild]
            self.chance.choice(deeds)()

    def save(self) -> None:
        """What a person does at a time."""
        deeds: list[Callable[[], None]] = [self.edit, self.edit, self.edit, self.make]
        if not self.gentle:
            deeds += [self.overwrite, self.delete, self.rename, self.mode]
        self.chance.choice(deeds)()

    # ---- git

    def use_git(self) -> None:
        """A person uses git: what stands in its way it refuses, which is as well."""
        branch = self.chance.choice(["main", "side", "other"])
        for words in self.chance.choice(
            [
                [("add", "-A"), (*ME, "commit", "-qm", "x")],
                [("checkout", "-q", "-b", branch)],
                [("checkout", "-q", branch)],
                [("checkout", "-qf", branch)],
                [(*ME, "stash", "-q")],
                [(*ME, "stash", "pop", "-q")],
                [("reset", "-q", "--hard")],
                [("reset", "-q", "--hard", "HEAD~1")],
                [("checkout", "-q", "--", "t0", "t1")],
            ]
        ):
            git(self.root, *words, check=False)

    # ---- choosing

    def target(self) -> Path | None:
        """Where a tool that names files may write: a file, or a name where none stands."""
        path = self.root / self.chance.choice(NAMES)
        blocked = any(one.is_symlink() or one.is_file() for one in path.parents if one != self.root)
        return None if blocked or path.is_dir() or path.is_symlink() else path

    def _any(self) -> Path | None:
        files = self.files()
        return self.chance.choice(files) if files else None

    def _free(self) -> Path | None:
        folder = self.root / self.chance.choice(["", "", *FOLDERS])
        path = folder / self.chance.choice([*(Path(name).name for name in NAMES), f"n{self.word()}"])
        for one in path.parents:
            if one.is_relative_to(self.root) and (one.is_symlink() or one.is_file()):
                return None
        return None if path.is_symlink() or path.exists() else path

    def _folder(self) -> Path | None:
        found = [self.root / name for name in FOLDERS]
        found = [one for one in found if one.is_dir() and not one.is_symlink()]
        whole = [one for one in found if not any(up.is_symlink() for up in one.parents)]
        return self.chance.choice(whole) if whole else None

    def _put(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
