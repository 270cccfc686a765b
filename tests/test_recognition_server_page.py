"""The page in a real browser without a window: a file and a microphone are recognized, errors are told, and it is
readable on a wide and on a narrow screen, for eyes and for machines that read aloud."""
from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_recognition import RATE, FakeStream, fake_models, serving

from nnet3py.recognition.server.options import Limits

pytestmark = pytest.mark.slow
pytest.importorskip("websockets")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
SECONDS = 20.0               # for what needs a moment


class ToneStream(FakeStream):
    """A word for each half second that is loud: what a browser makes of samples keeps that, but not single values."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.rate = settings.sample_rate

    def accept_waveform(self, block: bytes) -> None:
        step = self.rate / RATE
        samples = np.frombuffer(block, "<i2")[np.arange(0, len(block) // 2, step).astype(int)]
        super().accept_waveform(np.where(np.abs(samples) > 4000, 17, 0).astype("<i2").tobytes())


@pytest.fixture
def url() -> Iterator[str]:
    with server() as address:
        yield address


@contextmanager
def server(**options: Any) -> Iterator[str]:
    """A server in a thread of its own."""
    ready, over = threading.Event(), threading.Event()
    found: list[Any] = []

    async def body() -> None:
        async with serving(ToneStream, models=fake_models(tones=0), **options) as running:
            found.append(running.port)
            ready.set()
            while not over.is_set():
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(body()))
    thread.start()
    try:
        assert ready.wait(10)
        yield f"http://localhost:{found[0]}/"
    finally:
        over.set()
        thread.join()


@contextmanager
def browser(*arguments: str) -> Iterator[Any]:
    """Playwright's own Chromium, else one that the system has."""
    with playwright.sync_playwright() as started:
        path = None if os.path.exists(started.chromium.executable_path) else next(
            filter(None, map(shutil.which, BROWSERS)), None)
        if path is None and not os.path.exists(started.chromium.executable_path):
            pytest.skip("there is no Chromium: playwright install chromium, or the system's package of it")
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox", *arguments])
        try:
            yield opened
        finally:
            opened.close()


def write_tone(path: Path, loud: str, rate: int = 16000, channels: int = 1) -> None:
    """Half seconds of a square wave (1) or of silence (a blank)."""
    tone = np.where(np.arange(rate // 2) // 20 % 2, 8000, -8000).astype("<i2")
    samples = np.concatenate([tone * (one == "1") for one in loud]).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.repeat(samples, channels).tobytes())


def wait_for(page: Any, expression: str) -> None:
    """Wait until an expression is true in the page; playwright's own way needs ``eval``, which the page forbids."""
    end = time.monotonic() + SECONDS
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"{expression}: {page.inner_text('main')}"
        page.wait_for_timeout(20)


def opened_page(opened: Any, url: str, **context: Any) -> tuple[Any, list[str]]:
    """The page, and a list in which whatever goes wrong in it will be."""
    page = opened.new_context(**context).new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    own = url, "data:", "blob:", url.replace("http", "ws")
    page.on("request", lambda asked: None if asked.url.startswith(own) else faults.append(f"asked for {asked.url}"))
    page.goto(url)
    wait_for(page, "document.getElementById('server').textContent === 'Ready: tones'")
    return page, faults


def test_a_file(url: str, tmp_path: Path) -> None:
    write_tone(tmp_path / "tone.wav", "11  1", rate=44100, channels=2)
    with browser() as opened:
        page, faults = opened_page(opened, url)
        page.set_input_files("#file", str(tmp_path / "tone.wav"))
        wait_for(page, "document.querySelectorAll('#results li').length === 2 && running === null")
        assert page.inner_text("#results").split() == ["0:00", "seven", "seven", "0:02", "seven"]
        assert page.is_hidden("#running") and page.is_hidden("#alarm") and page.is_enabled("#save")
        with page.expect_download() as download:
            page.click("#save")
        assert Path(download.value.path()).read_text() == "seven seven\nseven\n"
        page.set_input_files("#file", str(tmp_path / "tone.wav"))           # another sound, below a line
        wait_for(page, "document.querySelectorAll('#results li').length === 4 && running === null")
        assert page.evaluate("[...document.querySelectorAll('#results li')].map(one => one.className)") == [
            "", "", "next", ""]
        page.click("#clear")
        assert page.inner_text("#results") == "" and page.is_visible("#empty") and page.is_disabled("#save")
        assert faults == []


def test_a_microphone(url: str, tmp_path: Path) -> None:
    write_tone(tmp_path / "microphone.wav", "111   " * 20, rate=48000)
    with browser("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
                 f"--use-file-for-fake-audio-capture={tmp_path / 'microphone.wav'}") as opened:
        page, faults = opened_page(opened, url, permissions=["microphone"])
        page.click("#microphone")
        wait_for(page, "document.getElementById('partial').textContent.includes('seven')")
        assert page.get_attribute("#microphone", "aria-pressed") == "true" and page.inner_text("#microphone") == "Stop"
        assert page.is_visible("#level")
        wait_for(page, "document.querySelectorAll('#results li').length >= 1")
        page.click("#microphone")
        wait_for(page, "running === null")
        assert page.inner_text("#microphone") == "Speak" and "seven" in page.inner_text("#results")
        assert faults == []


def test_what_goes_wrong_is_told(url: str, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    with browser() as opened:
        page, faults = opened_page(opened, url)
        page.set_input_files("#file", str(tmp_path / "text.wav"))
        wait_for(page, "!document.getElementById('alarm').hidden")
        assert "text.wav: this browser finds no sound" in page.inner_text("#alarm") and page.is_enabled("#microphone")
        page.click("#microphone")              # there is none, or it is not allowed
        wait_for(page, "document.getElementById('alarm').textContent.includes('microphone')")
        assert page.is_enabled("#microphone") and page.inner_text("#microphone") == "Speak"
        assert faults == []


def test_a_limit_is_told(tmp_path: Path) -> None:
    write_tone(tmp_path / "long.wav", "1111111")
    with server(limits=Limits(max_seconds=1.0)) as url, browser() as opened:
        page, _ = opened_page(opened, url)
        page.set_input_files("#file", str(tmp_path / "long.wav"))
        wait_for(page, "running === null && !document.getElementById('alarm').hidden")
        assert page.inner_text("#alarm") == "more than 1 seconds of sound on one connection"
        assert page.inner_text("#results").split() == ["0:00", "seven", "seven"]      # what was heard before


@pytest.mark.parametrize("width", [1200, 400, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable(url: str, tmp_path: Path, width: int, scheme: str) -> None:
    write_tone(tmp_path / "tone.wav", "11  1   11111   ")
    with browser() as opened:
        page, faults = opened_page(opened, url, viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.set_input_files("#file", str(tmp_path / "tone.wav"))
        wait_for(page, "document.querySelectorAll('#results li').length === 3 && running === null")
        if os.environ.get("NNET3PY_SCREENSHOTS"):
            page.screenshot(path=os.path.join(os.environ["NNET3PY_SCREENSHOTS"], f"{width}-{scheme}.png"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        for name in ("#microphone", "#file-label"):
            assert page.locator(name).bounding_box()["height"] >= 44, "large enough for a finger"
        weak = page.evaluate(CONTRASTS)
        assert weak == []
        unnamed = page.evaluate("""[...document.querySelectorAll("button, input, meter, progress, section")].filter(
            one => !(one.innerText || one.textContent || one.ariaLabel || (one.labels && one.labels.length)
              || one.getAttribute('aria-labelledby'))).map(one => one.outerHTML)""")
        assert unnamed == [] and page.evaluate("document.documentElement.lang") == "en"
        assert faults == []


def test_the_keyboard_does_all(url: str) -> None:
    with browser() as opened:
        page, _ = opened_page(opened, url)
        reached = []
        for _ in range(4):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.id"))
        assert reached[:3] == ["microphone", "file", "text"]


# Texts whose contrast with what is behind them is less than 4.5 (WCAG, level AA).
CONTRASTS = """(() => {
  const numbers = color => color.match(/[\\d.]+/g).map(Number);
  const light = color => numbers(color).slice(0, 3).map(value => value / 255).map(
    value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4).reduce(
    (sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor, parts = numbers(color);
      if (parts.length === 3 || parts[3] > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const weak = [];
  for (const one of document.querySelectorAll("body *")) {
    if (!one.checkVisibility() || one.disabled || ![...one.childNodes].some(
        node => node.nodeType === 3 && node.textContent.trim())) continue;
    const [low, high] = [light(getComputedStyle(one).color), light(behind(one))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < 4.5) weak.push(one.outerHTML);
  }
  return weak;
})()"""
