"""nnet3py docs: finding pages, serving them to this machine only."""
from __future__ import annotations

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from nnet3py.cli.machine import installation as docs
from nnet3py.cli.main import load
from nnet3py.errors import Nnet3Error, UsageError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small site, which the command takes for the documentation."""
    (tmp_path / "site" / "reference").mkdir(parents=True)
    for name in ("index", "training", "commands"):
        (tmp_path / "site" / f"{name}.html").write_text(f"<h1>{name}</h1>")
    (tmp_path / "site" / "reference" / "sound.html").write_text('<h2 id="nnet3py.recognition.recognizer.Recognizer">')
    (tmp_path / "secret.html").write_text("secret")
    monkeypatch.setattr(docs, "site_folder", lambda: tmp_path / "site")
    return tmp_path / "site"


@pytest.mark.parametrize(("name", "place"), [
    ("", "index.html"), ("training", "training.html"), ("training.md", "training.html"),
    ("nnet3-compute", "commands.html#nnet3-compute"), ("compute", "commands.html#nnet3-compute"),
    ("Recognizer", "reference/sound.html#nnet3py.recognition.recognizer.Recognizer")])
def test_pages_are_found_by_name(site: Path, name: str, place: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert docs.find_page(site, name) == place
    assert load("docs").execute(["--print-path", *([name] if name else [])]) == 0
    assert capfd.readouterr().out == f"{site / place.partition('#')[0]}\n"


@pytest.mark.parametrize(("name", "hint"), [
    ("trainin", "did you mean 'training'"), ("../secret", "pages are commands, tr"), (".*", "pages are commands, tr")])
def test_other_names_are_errors(site: Path, name: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        docs.find_page(site, name)


def test_it_serves_its_folder_only(site: Path) -> None:
    server = docs.make_server(site, 0)
    host, port = server.server_address[:2]
    assert host == "127.0.0.1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/training.html", timeout=20) as page:
            assert page.read() == b"<h1>training</h1>"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/../secret.html", timeout=20)
        with pytest.raises(Nnet3Error, match=f"port {port} of this machine cannot be used"):
            docs.make_server(site, int(port))
    finally:
        server.shutdown()
        server.server_close()


def test_it_says_where_the_documentation_is(site: Path, monkeypatch: pytest.MonkeyPatch,
                                            capfd: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("http.server.ThreadingHTTPServer.serve_forever", interrupted)
    assert load("docs").execute(["training"]) == 0
    said = capfd.readouterr().err
    assert opened[0].endswith("/training.html") and opened[0] in said and "type this address" in said


def interrupted(server: object) -> None:
    raise KeyboardInterrupt


def test_a_copy_without_documentation_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "package" / "cli" / "machine").mkdir(parents=True)
    monkeypatch.setattr(docs, "__file__", str(tmp_path / "package" / "cli" / "machine" / "installation.py"))
    with pytest.raises(Nnet3Error, match="was not built for this installation .install a wheel"):
        docs.site_folder()
    (tmp_path / "docs").mkdir()
    with pytest.raises(Nnet3Error, match="'make docs' in the checkout builds it"):
        docs.site_folder()
    (tmp_path / "build" / "site").mkdir(parents=True)
    (tmp_path / "build" / "site" / "index.html").touch()
    assert docs.site_folder() == tmp_path / "build" / "site"
