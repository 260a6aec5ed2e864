"""Doubles of model providers: real HTTP servers on the loopback that speak each protocol from a script.

No provider is reached by these tests; what is real is the socket, the HTTP and the client libraries.
"""

import json
import socket
import struct
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-THE-KEY-NOBODY-MAY-SEE-0123456789"
JSON = "application/json"


@dataclass(frozen=True)
class Reply:
    """One answer of a server: a status and a body, or a misbehaviour."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = JSON
    hang: bool = False
    drip: bool = False
    reset: bool = False


@dataclass(frozen=True)
class Request:
    """What a server was sent."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Provider(ThreadingHTTPServer):
    """Answers from `script` in turn, the last reply for ever; counts how many requests it holds at once."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Reply] = []
        self.requests: list[Request] = []
        self.at_once = self.most_at_once = 0
        self.delay_s = 0.0
        self.over = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, request: Request) -> Reply:
        with self.lock:
            self.requests.append(request)
            return self.script[min(len(self.requests), len(self.script)) - 1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        try:
            self.server.over.wait(self.server.delay_s)
            self._answer(self.server.take(Request(self.path, headers, json.loads(raw))))
        finally:
            with self.server.lock:
                self.server.at_once -= 1

    def _answer(self, reply: Reply) -> None:
        if reply.hang:
            self.server.over.wait(30)
        if reply.reset or reply.hang:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            return
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        self.send_header("content-length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        for piece in (
            [reply.body[place : place + 1] for place in range(len(reply.body))] if reply.drip else [reply.body]
        ):
            self.wfile.write(piece)
            if reply.drip and self.server.over.wait(0.1):
                return

    def log_message(self, format: str, *args: object) -> None:
        """A test that fails says why by itself."""


@dataclass(frozen=True)
class Dialect:
    """A protocol as a server speaks it."""

    name: str
    model: str
    suffix: str
    path: str
    stop: dict[str, Any]
    refusal: dict[str, Any]
    empty: dict[str, Any]
    length: dict[str, Any]

    def spec(self, server: Provider, *settings: str) -> str:
        """How `--models` names this model on that server."""
        return ",".join((f"{self.name}:{self.model}", f"base_url={server.url}{self.suffix}", *settings))


def reply(body: Any, status: int = 200, **rest: Any) -> Reply:
    """A reply with a JSON body."""
    return Reply(json.dumps(body).encode(), status, **rest)


def _chat(content: str | None, finish: str, refusal: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
    }


def _responses(content: list[dict[str, Any]], status: str = "completed", why: str | None = None) -> dict[str, Any]:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "served-1",
        "status": status,
        "incomplete_details": {"reason": why} if why else None,
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 120,
            "output_tokens": 30,
            "total_tokens": 150,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _output(text: str) -> list[dict[str, Any]]:
    return [{"type": "output_text", "text": text, "annotations": []}]


def _anthropic(text: str, stop: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served-1",
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 120, "output_tokens": 30},
    }


def _google(text: str, finish: str) -> dict[str, Any]:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}] if text else []}, "finishReason": finish}
        ],
        "usageMetadata": {"promptTokenCount": 120, "candidatesTokenCount": 30, "totalTokenCount": 150},
        "modelVersion": "served-1",
    }


CODE = "__global__ void k() {}"
CHAT = Dialect(
    name="openai-compatible",
    model="some-model",
    suffix="/v1",
    path="/v1/chat/completions",
    stop=_chat(CODE, "stop"),
    refusal=_chat(None, "stop", "I cannot help with that."),
    empty=_chat("", "stop"),
    length=_chat(CODE, "length"),
)
RESPONSES = Dialect(
    name="openai",
    model="gpt-double",
    suffix="/v1",
    path="/v1/responses",
    stop=_responses(_output(CODE)),
    refusal=_responses([{"type": "refusal", "refusal": "I cannot help with that."}]),
    empty=_responses(_output("")),
    length=_responses(_output(CODE), "incomplete", "max_output_tokens"),
)
ANTHROPIC = Dialect(
    name="anthropic",
    model="claude-double",
    suffix="",
    path="/v1/messages",
    stop=_anthropic(CODE, "end_turn"),
    refusal=_anthropic("I cannot help with that.", "refusal"),
    empty=_anthropic("", "end_turn"),
    length=_anthropic(CODE, "max_tokens"),
)
GOOGLE = Dialect(
    name="google",
    model="gemini-double",
    suffix="",
    path="/v1beta/models/gemini-double:generateContent",
    stop=_google(CODE, "STOP"),
    refusal=_google("I cannot help with that.", "SAFETY"),
    empty=_google("", "STOP"),
    length=_google(CODE, "MAX_TOKENS"),
)
DIALECTS = (CHAT, RESPONSES, ANTHROPIC, GOOGLE)
