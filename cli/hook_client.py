"""What an agent's hook runs: hands the payload to the daemon, waits while the agent should wait, and ends.

    PYTHON -I -S hook_client.py AGENT HOME BUDGET_MS ENTRY

It stands alone and imports next to nothing, because the agent waits for its start too. It never says
anything of its own and never fails: without a daemon the payload goes into the spool and a daemon is
started. The frames are described in `cli.frames`.
"""

import posix as system
import sys
import time

try:
    import _socket as sockets
except ImportError:  # another Python than CPython
    import socket as sockets  # type: ignore[no-redef]

STARTING = 5.0
"""Seconds in which a daemon that was started is waited for."""
AGAIN = 60.0
"""Seconds after which another one is started; in between nothing waits for what does not come up."""
SPOOLED = 1000
"""Frames that are kept for a daemon that does not come up."""
_PAUSE = 0.02
_LONGEST_ADDRESS = 100
_KEPT = ("HOME", "PATH", "LANG", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR", "CLAUDE_CONFIG_DIR")
_KEPT_PREFIXES = ("LC_", "XDG_", "RECORDER_", "PI_CODING_AGENT_")


def main(words: list[str]) -> None:
    started = time.time_ns()
    agent, home, budget, entry = words
    deadline = started + int(budget) * 1_000_000
    payload = _read_all(0)
    frame = b"recorder 1 %s %d %d %d\n%s" % (agent.encode(), started, deadline, len(payload), payload)
    connection = _connect(home, deadline)
    answer = None if connection is None else _ask(connection, frame)
    if answer is not None:
        _tell(answer)
        return
    spooled = _spool(home, started, frame)
    age = _starting_for(home + "/starting")
    if age >= AGAIN:
        _start_daemon(home, entry)
    if spooled and not STARTING <= age < AGAIN:
        while time.time_ns() < deadline and _exists(spooled):
            time.sleep(_PAUSE)


def _read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := system.read(descriptor, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _connect(home: str, deadline: int) -> "sockets.socket | None":
    """A connection to the daemon, or None where there is none."""
    address = home + "/socket"
    folder = -1
    if len(address.encode("utf-8", "surrogateescape")) > _LONGEST_ADDRESS:
        folder = system.open(home, system.O_RDONLY)
        address = f"/proc/self/fd/{folder}/socket"
    connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        connection.settimeout(max(deadline - time.time_ns(), 1) / 1e9)
        connection.connect(address)
    except OSError:
        return None
    finally:
        if folder >= 0:
            system.close(folder)
    return connection


def _ask(connection: "sockets.socket", frame: bytes) -> "bytes | None":
    """The daemon's answer: what the agent is to be told, mostly nothing. None where the daemon died."""
    answer = b""
    try:
        connection.sendall(frame)
        while b"\n" not in answer:
            if not (piece := connection.recv(4096)):
                return None
            answer += piece
        head, _, content = answer.partition(b"\n")
        length = int(head.split()[1])
        while len(content) < length:
            if not (piece := connection.recv(65536)):
                return None
            content += piece
    except ConnectionError:
        return None
    return content[:length]


def _tell(content: bytes) -> None:
    while content:
        content = content[system.write(1, content) :]


def _spool(home: str, started: int, frame: bytes) -> "str | None":
    """Leave the frame for the next daemon, whole or not at all; where it lies, or None."""
    name = f"{started}-{system.getpid()}"
    beside, place = f"{home}/spool/.{name}", f"{home}/spool/{name}"
    try:
        system.mkdir(home + "/spool", 0o700)
    except FileExistsError:
        if len(system.listdir(home + "/spool")) >= SPOOLED:
            return None
    file = system.open(beside, system.O_WRONLY | system.O_CREAT | system.O_EXCL, 0o600)
    try:
        while frame:
            frame = frame[system.write(file, frame) :]
    finally:
        system.close(file)
    system.rename(beside, place)
    return place


def _starting_for(marker: str) -> float:
    """Seconds since a daemon was last started; longer ago than counts where none was."""
    try:
        age = time.time() - system.stat(marker).st_mtime
    except OSError:
        return AGAIN
    return age if age >= 0 else AGAIN


def _start_daemon(home: str, entry: str) -> None:
    """One that goes on after this process and its agent."""
    system.close(system.open(home + "/starting", system.O_WRONLY | system.O_CREAT | system.O_TRUNC, 0o600))
    system.utime(home + "/starting")
    if system.fork():
        return
    try:
        system.setsid()
        null = system.open("/dev/null", system.O_RDWR)
        for descriptor in (0, 1, 2):
            system.dup2(null, descriptor)
        system.chdir("/")
        words = [sys.executable, "-I", entry, "--home", home, "daemon", "run"]
        system.execve(sys.executable, words, _environment())
    finally:
        system._exit(0)


def _environment() -> "dict[bytes, bytes]":
    """What a daemon needs to know of the user; the agent's own variables may hold its secrets."""
    kept = {}
    for name, value in system.environ.items():
        text = name.decode("utf-8", "replace")
        if text in _KEPT or text.startswith(_KEPT_PREFIXES):
            kept[name] = value
    return kept


def _exists(place: str) -> bool:
    try:
        system.stat(place)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException:  # noqa: BLE001, S110 - the outermost edge: an agent is never disturbed
        pass
    finally:
        system._exit(0)
