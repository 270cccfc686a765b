"""What the server's port answers to plain HTTP: health, metrics, and a page to try recognition in a browser."""
from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import urlsplit

from nnet3py.recognition import server_metrics

PAGE = "server_page.html"
_TEXT, _JSON, _HTML = "text/plain; charset=utf-8", "application/json", "text/html; charset=utf-8"


class HttpAnswer(NamedTuple):
    """Status, headers and body."""

    status: HTTPStatus
    headers: dict[str, str]
    body: bytes


def answer_to(path: str, health: Callable[[], dict[str, object]], metrics: Callable[[], str]) -> HttpAnswer:
    """The answer to a GET of a path, which may have a query; ``status`` of ``health`` says whether all is well."""
    path = path.partition("?")[0]
    if path in ("/", "/index.html"):
        page = page_text()
        return _answer(HTTPStatus.OK, _HTML, page, {"Content-Security-Policy": content_policy(page)})
    if path == "/health":
        state = health()
        return _answer(HTTPStatus.OK if state["status"] == "ok" else HTTPStatus.SERVICE_UNAVAILABLE, _JSON,
                       json.dumps(state) + "\n")
    if path == "/metrics":
        return _answer(HTTPStatus.OK, server_metrics.CONTENT_TYPE, metrics())
    return refusal(HTTPStatus.NOT_FOUND, "There are /, /health and /metrics, and a WebSocket for sound.")


def refusal(status: HTTPStatus, why: str) -> HttpAnswer:
    """An answer that says why there is no other."""
    return _answer(status, _TEXT, why + "\n", {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {})


def _answer(status: HTTPStatus, kind: str, text: str, headers: dict[str, str] | None = None) -> HttpAnswer:
    body = text.encode()
    return HttpAnswer(status, {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close",
                               "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff",
                               "Referrer-Policy": "no-referrer", **(headers or {})}, body)


def page_text() -> str:
    """The page: one file, which loads nothing from elsewhere."""
    return files("nnet3py.recognition").joinpath(PAGE).read_text(encoding="utf-8")


def content_policy(page: str) -> str:
    """What a browser lets the page do: run its own script and style, named by their hashes, and talk to its server."""
    def hashes(element: str) -> str:
        return " ".join("'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
                        for text in re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL))

    return (f"default-src 'none'; script-src {hashes('script')} blob:; style-src {hashes('style')}; "
            "connect-src 'self' ws: wss:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def origin_is_allowed(origins: Sequence[str], host: str, is_local: bool, allowed: Sequence[str]) -> bool:
    """Whether a browser that shows a page of some origin may connect.

    Programs that are not browsers name no origin. A browser does, and could be told by any page to connect to a server
    on its user's own machine; so the page must come from this server, or its origin be allowed. Names that were made
    to lead here (DNS rebinding) are recognized because they are not local ones.

    Parameters
    ----------
    origins : values of the Origin header, such as ``https://example.org``
    host : the Host header
    is_local : whether the server can be reached from its own machine only
    allowed : further origins; ``*`` for all
    """
    if not origins or "*" in allowed:
        return True
    if len(origins) > 1:
        return False
    if origins[0] in allowed:
        return True
    try:
        parts = urlsplit(origins[0])
        name = parts.hostname or ""
    except ValueError:
        return False
    return bool(parts.netloc) and parts.netloc.lower() == host.lower() and (is_local_name(name) or not is_local)


def is_local_name(name: str) -> bool:
    """Whether a host's name or address can only mean the machine itself."""
    name = name.lower().strip("[]")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
