"""What the port answers to plain HTTP, and which pages may connect."""
from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re

import pytest
from fake_recognition import fake_models, http_get, serving

from nnet3py import __version__
from nnet3py.recognition.server.server import content_policy, origin_is_allowed, page_text


def test_paths() -> None:
    pytest.importorskip("websockets")

    async def body() -> None:
        async with serving(models=fake_models(digits=0, letters=1)) as running:
            status, headers, text = await http_get(running.port, "/health")
            assert (status, headers["content-type"]) == (200, "application/json")
            assert json.loads(text) == {"status": "ok", "model": "digits", "models": ["digits", "letters"],
                                        "version": __version__, "connections": 0, "sample_rate": 8000.0}
            status, headers, text = await http_get(running.port, "/metrics?all")
            assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
            assert "\nnnet3py_connections 0\n" in text
            status, headers, text = await http_get(running.port, "/")
            assert status == 200 and headers["content-type"] == "text/html; charset=utf-8" and text == page_text()
            assert headers["x-content-type-options"] == "nosniff" and headers["connection"] == "close"
            assert headers["content-security-policy"] == content_policy(text)
            status, headers, text = await http_get(running.port, "/../etc/passwd")
            assert status == 404 and "/health" in text
            running.server.stop()
            assert running.server.health()["status"] == "stopping"

    asyncio.run(body())


def test_the_page_loads_nothing() -> None:
    page = page_text()
    assert not re.findall(r"\b(?:src|href)=(?![\"']data:).*|@import|url\(", page)
    assert "http://www.w3.org/2000/svg" in page and len(re.findall("https?://", page)) == 1      # a name, no address
    assert " style=" not in page and not re.search(r"\son[a-z]+=", page), "the content policy allows none"
    policy = content_policy(page)
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1 and base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode() in policy
    assert "default-src 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("origin, host, is_local, allowed, expected", [
    (None, "127.0.0.1:2700", True, (), True),                                   # no browser
    ("http://localhost:2700", "localhost:2700", True, (), True),
    ("http://[::1]:2700", "[::1]:2700", True, (), True),
    ("http://LOCALHOST:2700", "localhost:2700", True, (), True),
    ("http://localhost:8000", "localhost:2700", True, (), False),
    ("https://evil.org", "localhost:2700", True, (), False),
    ("http://evil.org:2700", "evil.org:2700", True, (), False),                 # a name that was made to lead here
    ("http://speech.example.org", "speech.example.org", False, (), True),
    ("http://evil.org", "speech.example.org", False, (), False),
    ("https://app.example.org", "localhost:2700", True, ("https://app.example.org",), True),
    ("https://app.example.org", "localhost:2700", True, ("*",), True),
    ("null", "localhost:2700", True, (), False), ("", "", True, (), False), ("http://[", "[", True, (), False),
])
def test_origins(origin: str | None, host: str, is_local: bool, allowed: tuple[str, ...], expected: bool) -> None:
    assert origin_is_allowed([] if origin is None else [origin], host, is_local, allowed) is expected


def test_two_origins_are_none() -> None:
    assert not origin_is_allowed(["http://localhost:1"] * 2, "localhost:1", True, ())
