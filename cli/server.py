"""The daemon's ear: takes frames from hooks and extensions, and answers at once what need not wait.

One thread listens; what is asked is handed to the thread that records. Nothing is decided here but
whether an agent waits, which its source says from the payload alone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from cli.errands import AGENT as RECORDER
from cli.errands import Errands
from cli.frames import BadFrame, Frame, Incoming, answer, push
from recorder.errors import Failed
from recorder.sources.base import Signal

LONGEST_ADDRESS = 100
"""Bytes of a socket's address that every system takes."""

_PIECE = 1 << 16

Understand = Callable[[Frame], Signal | None]


class Asked(NamedTuple):
    """A signal for the thread that records. `answer` may be called once it is done, from any thread."""

    frame: Frame
    signal: Signal
    answer: Callable[[bytes], None]


class Server:
    """Listens on the home's socket from `start` on. `news` is called when something was asked."""

    def __init__(self, home: Path, understand: Understand, news: Callable[[], None]) -> None:
        self._home, self._understand, self._news = home, understand, news
        self._asked: deque[Asked] = deque()
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, _Connection] = {}
        self._errands = Errands(self._push)
        self._lock = threading.Lock()
        self._woken, self._wake = os.pipe()
        self._listening: socket.socket | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="hooks", daemon=True)

    def __enter__(self) -> Self:
        """Raises Failed where the socket cannot be made."""
        self._listening = _listening(self._home)
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        os.write(self._wake, b"\0")
        self._thread.join()
        with contextlib.suppress(FileNotFoundError):
            (self._home / "socket").unlink()
        for connection in list(self._connections.values()):
            self._drop(connection)
        if self._listening is not None:
            self._listening.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._wake)

    def asked(self) -> Iterator[Asked]:
        """What was asked since, oldest first; for the thread that records."""
        while self._asked:
            yield self._asked.popleft()

    def has_prompt(self, session: str) -> bool:
        """Whether a prompt of this session is among what was asked and not taken."""
        return any(one.signal.kind == "prompt" and one.signal.session == session for one in list(self._asked))

    def _push(self, session: str, content: bytes) -> int | None:
        """Hand something to the extension that keeps a connection open for a session; the number of that
        connection."""
        with self._lock:
            has_it = [one for one in self._connections.values() if session in one.sessions]
        return next((one.number for one in reversed(has_it) if one.send(push(content))), None)

    # ---- the listening thread

    def _listen(self) -> None:
        assert self._listening is not None
        while not self._closing:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    self._accept()
                elif key.fd != self._woken:
                    self._receive(key.data)

    def _accept(self) -> None:
        assert self._listening is not None
        with contextlib.suppress(OSError):
            accepted, _ = self._listening.accept()
            if not _is_own(accepted):
                accepted.close()
                return
            accepted.setblocking(False)
            connection = _Connection(accepted)
            with self._lock:
                self._connections[accepted.fileno()] = connection
            self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _receive(self, connection: _Connection) -> None:
        try:
            content = connection.socket.recv(_PIECE)
            frames = connection.incoming.take(content) if content else None
        except BlockingIOError:
            return
        except (OSError, BadFrame):
            frames = None
        if frames is None:
            self._drop(connection)
            return
        for frame in frames:
            self._take(connection, frame)

    def _take(self, connection: _Connection, frame: Frame) -> None:
        ticket = connection.ticket()
        if frame.agent == RECORDER:
            self._errands.take(frame.payload, lambda content: connection.answer(ticket, content))
            return
        signal = self._understand(frame) if frame.payload else None
        if signal is None:
            connection.answer(ticket, b"")
            return
        connection.sessions.add(signal.session)
        self._asked.append(Asked(frame, signal, lambda content: connection.answer(ticket, content)))
        if not signal.waits:
            connection.answer(ticket, b"")
        self._news()

    def _drop(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.pop(connection.number, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.close()
        self._errands.dropped(connection.number)


class _Connection:
    """One client. Answers go out in the order of what it asked, each of them once."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.number = accepted.fileno()
        self.incoming = Incoming()
        self.sessions: set[str] = set()
        self._lock = threading.Lock()
        self._waiting: deque[int] = deque()
        self._ready: dict[int, bytes] = {}
        self._tickets = 0

    def ticket(self) -> int:
        with self._lock:
            self._tickets += 1
            self._waiting.append(self._tickets)
            return self._tickets

    def answer(self, ticket: int, content: bytes) -> None:
        with self._lock:
            if ticket not in self._waiting:
                return
            self._ready.setdefault(ticket, answer(content))
            while self._waiting and self._waiting[0] in self._ready:
                self._send(self._ready.pop(self._waiting.popleft()))

    def send(self, content: bytes) -> bool:
        with self._lock:
            return self._send(content)

    def close(self) -> None:
        with self._lock:
            self.socket.close()

    def _send(self, content: bytes) -> bool:
        """A client that went away, or does not read, is none of ours to wait for."""
        try:
            return self.socket.send(content) == len(content)
        except OSError:
            return False


def _listening(home: Path) -> socket.socket:
    """The home's socket. The caller holds the lock of the one daemon: what stands there is stale."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            (home / "socket").unlink()
        with address_of(home) as address:
            made.bind(address)
        (home / "socket").chmod(0o600)
        made.listen(128)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise Failed(f"the socket of {home} cannot be made: {error.strerror or error}") from error
    return made


@contextlib.contextmanager
def address_of(home: Path) -> Iterator[str]:
    """The address of a home's socket, however long the home's path is."""
    address = os.fspath(home / "socket")
    if len(os.fsencode(address)) <= LONGEST_ADDRESS:
        yield address
        return
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/socket"
    finally:
        os.close(folder)


def _is_own(accepted: socket.socket) -> bool:
    """Whether it is this user who asks; where the system does not tell, the home's mode is the proof."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", accepted.getsockopt(socket.SOL_SOCKET, option, size))
    return bool(user == os.geteuid())


def understand_with(sources: Mapping[str, Callable[[bytes, int, int], Signal | None]]) -> Understand:
    """How frames are understood: each by its agent's source; None for an agent that nobody knows."""

    def understand(frame: Frame) -> Signal | None:
        source = sources.get(frame.agent)
        return source(frame.payload, frame.at, frame.deadline) if source else None

    return understand
