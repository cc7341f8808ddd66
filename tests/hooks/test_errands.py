"""What a command asks of a live agent goes through the daemon's socket to the extension in it, and back."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.live import LiveTalk, live
from cli.server import Server, address_of, understand_with
from recorder.home import open_home
from recorder.sources import all_sources

SESSION = "01a22eef-0000-7000-8000-00000000000a"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = open_home(tmp_path / "home").folder
    with Server(folder, understand_with({one.agent: one.signal for one in all_sources()}), lambda: None):
        yield folder


class Extension:
    """One in a live agent: tells of its session and answers what it is asked."""

    def __init__(self, home: Path, answers: dict[str, dict[str, Any]] | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answers = answers
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with address_of(home) as address:
            self._socket.connect(address)
        self._said = self._socket.makefile("rb")
        self.tell("pi", {"event": "start", "session": SESSION})
        assert self._said.readline() == b"ok 0\n"
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, agent: str, message: dict[str, Any]) -> None:
        payload = json.dumps(message).encode()
        self._socket.sendall(f"recorder 1 {agent} 1 2 {len(payload)}\n".encode() + payload)

    def _listen(self) -> None:
        while line := self._said.readline():
            word, size = line.split()
            content = self._said.read(int(size))
            if word != b"push":
                continue
            errand = json.loads(content)
            self.asked.append(errand)
            if self._answers is None:
                self._socket.shutdown(socket.SHUT_RDWR)
            else:
                answer = self._answers[errand["do"]]
                self.tell("recorder", {"did": errand["id"], "live": True, **answer})


def test_how_an_agent_is(home: Path) -> None:
    """By its own word; nothing where no extension has the session, and nothing without a daemon."""
    assert live(home, SESSION) is None
    extension = Extension(home, {"state": {"busy": True, "why_not": None}})
    assert live(home, "another") is None
    found = live(home, SESSION, looks=True)
    assert found is not None and (found.busy, found.why_not) == (True, None)
    live(home, SESSION)
    assert [one["pin"] for one in extension.asked] == [False, True]
    assert live(home / "nowhere", SESSION) is None


@pytest.mark.parametrize(
    ("answer", "why"), [({"moved": True}, None), ({"moved": False, "why": "it said no"}, "it said no")]
)
def test_moving_it(home: Path, answer: dict[str, Any], why: str | None) -> None:
    """The extension is told where to, and its own word is what came of it."""
    extension = Extension(home, {"navigate": answer})
    assert LiveTalk(home, SESSION, "e1", "e2").take() == why
    (asked,) = extension.asked
    assert (asked["do"], asked["entry"], asked["prompt"]) == ("navigate", "e1", "e2")


def test_an_agent_that_goes_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is told, and does not find out by waiting."""
    monkeypatch.setattr("cli.live.MOVES_IN", 10.0)
    Extension(home, None)
    assert LiveTalk(home, SESSION, None, "e2").take() == "the agent went away"
    assert live(home, SESSION) is None


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"\xff", b'{"did": []}', b'{"did": 99}', b'{"ask": 1}', b'{"ask": "state"}']
)
def test_odd_errands(home: Path, payload: bytes) -> None:
    """Each is answered with nothing, and the daemon goes on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, address_of(home) as address:
        connection.settimeout(10)
        connection.connect(address)
        connection.sendall(b"recorder 1 recorder 1 2 %d\n%b" % (len(payload), payload))
        assert connection.recv(100) == b"ok 0\n"
    Extension(home, {"state": {}})
    assert live(home, SESSION) is not None
