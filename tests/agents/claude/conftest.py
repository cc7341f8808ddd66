"""Real Claude Code releases from the npm registry, a scripted model on loopback, and a project.

Installs (some 400 MB each) go into pytest's cache folder and are used again; without the registry the tests
are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.agents.npm import npm_install

RELEASES = ("2.1.197", "2.1.332")
PACKAGE = "@anthropic-ai/claude-code"

Step = str | tuple[str, dict[str, Any]]
"""What the model does in one answer: it says this, or calls this tool with this input."""


@pytest.fixture(scope="session", params=RELEASES)
def release(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A release and its program."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("the real agents are driven on Linux only")
    folder = Path(request.config.cache.mkdir(f"claude-{request.param}"))
    npm_install(folder, f"{PACKAGE}@{request.param}")
    program = next((folder / "node_modules").glob(f"{PACKAGE}-*/claude"), None)
    if program is None:
        pytest.skip(f"no program of {PACKAGE} {request.param} for this machine")
    return request.param, program


class Model:
    """A model that does the steps of `script`, then answers `ok`. While `free` is unset it does not answer.

    `requests` are the conversations it was sent: the texts of users and answers, in order. `look` is called
    before each answer, when no tool runs.
    """

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.script: list[Step] = []
        self.look: Callable[[], None] = lambda: None
        self.asked = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.free.set()
        self._server.shutdown()
        self._server.server_close()

    def step(self, request: dict[str, Any]) -> Step:
        """Requests without tools are the agent's own, for titles and the like."""
        if not request.get("tools"):
            return "ok"
        texts = (text_of(message) for message in request["messages"])
        self.requests.append([text for text in texts if text])
        self.look()
        self.asked.set()
        self.free.wait(60)
        return self.script.pop(0) if self.script else "ok"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.send_response(200)
                self.end_headers()

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not self.path.partition("?")[0].endswith("/v1/messages"):
                    self.send_error(404)
                    return
                events = list(answer(model.step(request), request["model"]))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self._send(request, events)

            def _send(self, request: dict[str, Any], events: list[dict[str, Any]]) -> None:
                self.send_response(200)
                if request.get("stream"):
                    self.send_header("content-type", "text/event-stream")
                    self.end_headers()
                    for event in events:
                        self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                    return
                content = [{"type": "text", "text": "ok"}]
                message = events[0]["message"] | {"content": content, "stop_reason": "end_turn"}
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(message).encode())

        return Handler


def text_of(message: dict[str, Any]) -> str:
    """The last text of a message: what stands before it the agent put there."""
    content = message["content"]
    if isinstance(content, str):
        return content
    texts = [block["text"] for block in content if block["type"] == "text"]
    return texts[-1] if texts else ""


def answer(step: Step, model: str) -> Iterator[dict[str, Any]]:
    """The events of one streamed answer of the Messages API."""
    token = os.urandom(8).hex()
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{token}", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    if isinstance(step, str):
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step}
    else:
        block = {"type": "tool_use", "id": f"toolu_{token}", "name": step[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = "end_turn" if isinstance(step, str) else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


class Claude:
    """One release with a home of its own, a project and the scripted model."""

    def __init__(self, version: str, program: Path, model: Model, folder: Path) -> None:
        self.version = version
        self.model = model
        self.config = folder / "config"
        self.project = folder / "project"
        self._program = program
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        for path in (self.config, self.project):
            path.mkdir()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Begin a run without a terminal; the last argument is the prompt."""
        command = [
            str(self._program),
            "-p",
            "--permission-mode",
            "acceptEdits",
            "--allowedTools=Edit,Write",
            *arguments,
        ]
        return subprocess.Popen(
            command,
            cwd=self.project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, *arguments: str, script: Sequence[Step] = ()) -> list[str]:
        """Run to the end; the conversation that the model was sent last."""
        self.model.script = list(script)
        process = self.start(*arguments)
        try:
            said, _ = process.communicate(timeout=90)
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, said
        return self.model.requests[-1]

    def log(self) -> Path:
        """The transcript that was written last."""
        return max(self.config.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture
def claude(release: tuple[str, Path], tmp_path: Path) -> Iterator[Claude]:
    with Model() as model:
        yield Claude(*release, model, tmp_path)
