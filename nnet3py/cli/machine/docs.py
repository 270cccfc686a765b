"""nnet3py docs: the documentation in a browser, from this machine, without a network."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, option
from nnet3py.errors import Nnet3Error, UsageError

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer
    from pathlib import Path

_HOST = "127.0.0.1"


@kaldi_command("docs", group="Start here", help="Open the documentation in a browser; it needs no network.",
               launcher=False, usage="""
Open the documentation in a browser. It is served from this machine, and to this machine only, until the command is
ended (ctrl-C). A page has its name in docs/, such as training; the name of a command, or of something public in
Python, leads to where it is described.

Usage:  nnet3py docs [options] [<page>]

e.g.:
 nnet3py docs
 nnet3py docs fine-tuning
 nnet3py docs nnet3-compute
 nnet3py docs Recognizer
 xdg-open $(nnet3py docs --print-path)
""", arguments=(0, 1), options=[
    option("print-path", bool, False, "Only print the file of the page, which a browser opens, too, but cannot search"),
    option("port", int, 0, "Port on this machine where a browser finds it (0: any that is free)"),
    option("browser", bool, True, "Open a browser; false: only say where the documentation is"),
])
def docs(args: list[str], options: Options) -> int:
    """Serve the documentation until it is interrupted; 0."""
    import webbrowser

    from nnet3py.io.streams import write_text

    folder = site_folder()
    place = find_page(folder, args[0] if args else "")
    if options.print_path:
        write_text("-", f"{folder / place.partition('#')[0]}\n")
        return 0
    server = make_server(folder, options.port)
    address = f"http://{_HOST}:{server.server_address[1]}/{place}"
    log.log(f"The documentation is at {address} until this command is ended")
    if options.browser and not webbrowser.open(address):
        log.warning("no browser could be opened: type this address into one")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


def site_folder() -> Path:
    """Where the built documentation is: in the package, or what ``make docs`` left. Nnet3Error if it is nowhere."""
    from pathlib import Path

    package = Path(__file__).resolve().parents[2]
    for folder in (package / "site", package.parent / "build" / "site"):
        if (folder / "index.html").is_file():
            return folder
    pages = package.parent / "docs"
    raise Nnet3Error("the documentation was not built here",
                     f"in the checkout, make docs builds it; its pages are texts in {pages}" if pages.is_dir() else
                     "wheels made by make dist have it")


def find_page(folder: Path, name: str) -> str:
    """The page of that name, as an address in the folder; UsageError if there is none."""
    from nnet3py.cli.registry import COMMANDS, PERSON_NAMES
    from nnet3py.config_line import did_you_mean

    name = name.removesuffix(".md").removesuffix(".html")
    if not name:
        return "index.html"
    if (folder / f"{name}.html").is_file() and re.fullmatch(r"[\w/-]+", name):
        return f"{name}.html"
    command = name if name in COMMANDS else PERSON_NAMES.get(name)
    if command is not None:
        return f"commands.html#{command}"
    for page in sorted((folder / "reference").glob("*.html")):
        match = re.search(rf'id="([\w.]+\.{re.escape(name)})"', page.read_text(encoding="utf-8"))
        if match is not None:
            return f"reference/{page.name}#{match[1]}"
    pages = sorted(page.stem for page in folder.glob("*.html") if page.stem not in ("404", "index"))
    raise UsageError(f"there is no page, command or public name '{name}'",
                     did_you_mean(name, [*pages, *COMMANDS, *PERSON_NAMES]) or f"pages are {', '.join(pages)}")


def make_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the files of a folder, for this machine; Nnet3Error if the port cannot be used."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    try:
        return ThreadingHTTPServer((_HOST, port), partial(Quiet, directory=str(folder)))
    except (OSError, OverflowError) as error:
        raise Nnet3Error(f"port {port} of this machine cannot be had ({error})", "leave out --port") from None
