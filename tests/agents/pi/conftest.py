"""Real pi releases from the npm registry, a scripted model on loopback, and a project to work in.

Installs go into pytest's cache folder and are used again; without the registry the tests are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.agents.npm import npm_install

RELEASES = {
    "0.73.1": ("@mariozechner/pi-coding-agent", "dist/cli.js"),
    "0.74.2": ("@earendil-works/pi-coding-agent", "dist/cli.js"),
    "1.6.0": ("@earendil-works/pi-coding-agent", "dist/bundle/cli.js"),
}
NODE = "22.23.5"


@pytest.fixture(scope="session")
def node(request: pytest.FixtureRequest) -> Path:
    if sys.platform != "linux":
        pytest.skip("the real agents are driven on Linux only")
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    if machine is None:
        pytest.skip(f"no node for {platform.machine()}")
    name = f"node-linux-{machine}"
    folder = Path(request.config.cache.mkdir(f"{name}-{NODE}"))
    npm_install(folder, f"{name}@{NODE}")
    return folder / "node_modules" / name / "bin" / "node"


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest, node: Path) -> list[str]:
    """The command that starts one release of pi."""
    package, entry = RELEASES[request.param]
    folder = Path(request.config.cache.mkdir(f"pi-{request.param}"))
    npm_install(folder, f"{package}@{request.param}")
    return [str(node), str(folder / "node_modules" / package / entry)]


class Model:
    """A model that answers `ok`, after running the shell command that a prompt holds in `[[…]]`, or the
    turns that stand in it after `@@`: a JSON list of turns, each a list of tools with their input.

    `requests` are the conversations it was sent: the texts of users and answers, in order. `look` is called
    before each answer, when no tool runs.
    """

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.look: Callable[[], None] = lambda: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                messages = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
                texts = [text for text in map(text_of, messages) if text]
                model.requests.append(texts)
                model.look()
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for event in answer(turn_of(messages)):
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        return Handler


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def turn_of(messages: list[dict[str, Any]]) -> list[list[Any]]:
    """The tools that are to be called now, by the newest prompt and what was answered since."""
    prompts = [index for index, one in enumerate(messages) if one["role"] == "user" and text_of(one)]
    prompt = text_of(messages[prompts[-1]])
    done = sum(one["role"] == "assistant" for one in messages[prompts[-1] :])
    wanted = None if "@@" in prompt else re.search(r"\[\[(.*)\]\]", prompt)
    turns: list[Any] = [[["bash", {"command": wanted[1]}]]] if wanted else []
    if "@@" in prompt:
        with contextlib.suppress(ValueError):  # one that only quotes another's turns
            turns = json.loads(prompt.split("@@", 1)[1])
    return list(turns[done]) if done < len(turns) else []


def answer(calls: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """The events of one streamed answer of Anthropic's Messages API: tools, or `ok`."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    blocks: list[tuple[dict[str, Any], dict[str, str]]] = [
        (
            {"type": "tool_use", "id": f"t{time.time_ns()}{index}", "name": name, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(given)},
        )
        for index, (name, given) in enumerate(calls)
    ]
    said = ({"type": "text", "text": ""}, {"type": "text_delta", "text": "ok"})
    for index, (block, delta) in enumerate(blocks or [said]):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = "tool_use" if calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
    yield {"type": "message_stop"}


class Pi:
    """One release of pi in a project of its own, with the scripted model."""

    def __init__(self, command: list[str], home: Path, model: Model) -> None:
        self.model = model
        self.project = home / "project"
        self.agent = home / "agent"
        self.command = [*command, "--provider", "scripted", "--model", "scripted"]
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "xterm-256color",
            "PI_CODING_AGENT_DIR": str(self.agent),
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_TELEMETRY": "0",
        }
        self.project.mkdir()
        self.agent.mkdir()
        (self.agent / "models.json").write_text(json.dumps({"providers": {"scripted": provider(model.url)}}))

    def ask(self, *arguments: str, cwd: Path | None = None) -> None:
        """Give one prompt in print mode and wait for the end."""
        ran = subprocess.run(
            [*self.command, "-p", *arguments],
            cwd=cwd or self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr

    @contextlib.contextmanager
    def alive(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A pi that goes on until the block ends: its standard input stays open."""
        with subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def terminal(self, *arguments: str, shows: bytes) -> Iterator[subprocess.Popen[bytes]]:
        """A full-screen pi on a terminal of its own, from when it shows a text until the block ends."""
        outer, inner = pty.openpty()
        with (
            open(outer, "rb", buffering=0) as screen,
            subprocess.Popen(
                [*self.command, *arguments],
                cwd=self.project,
                env=self.environment,
                stdin=inner,
                stdout=inner,
                stderr=inner,
                start_new_session=True,
            ) as process,
        ):
            os.close(inner)
            try:
                shown = b""
                while shows not in shown:
                    assert select.select([screen], [], [], 20)[0], shown
                    shown += screen.read(65536)
                yield process
            finally:
                process.kill()

    def log(self) -> Path:
        """The one session file that there is."""
        (log,) = (self.agent / "sessions").rglob("*.jsonl")
        return log


def provider(url: str) -> dict[str, Any]:
    model = {
        "id": "scripted",
        "name": "scripted",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 100_000,
        "maxTokens": 1000,
    }
    return {"baseUrl": url, "api": "anthropic-messages", "apiKey": "none", "models": [model]}


@pytest.fixture
def pi(release: list[str], tmp_path: Path) -> Iterator[Pi]:
    with Model() as model:
        yield Pi(release, tmp_path, model)


@pytest.fixture
def wait_for() -> Callable[[Callable[[], object]], None]:
    """Wait until something holds, for at most 20 s."""

    def wait(holds: Callable[[], object]) -> None:
        until = time.monotonic() + 20
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.05)

    return wait
