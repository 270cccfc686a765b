"""Commands about the installation and the machine.

nnet3-extras (optional packages), docs (the documentation in a browser), bin-path (the folder of launchers),
cuda-gpu-available and cuda-compiled (GPU support, for recipes), tune (matrix products by own code or by BLAS), resident
(a script whose programs are forks of one process).
"""
from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING

from nnet3py import log, system
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import QUIET, Options, option, print_error_text
from nnet3py.errors import DeviceError, Nnet3Error, UsageError

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer
    from pathlib import Path


@kaldi_command("nnet3-extras", "Start here", "Show which optional packages are installed or missing.", """
Show which extras, groups of optional packages for tasks such as word decoding or plots, are installed, and the command
that installs missing packages into the Python that runs this command. With extras as arguments, the exit status is 1 if
a package of theirs is missing.

Usage:  nnet3-extras [options] [<extra> ...]

e.g.:
 nnet3-extras
 nnet3-extras decode || echo "no words then"
""", arguments=(0, 100), options=[
    option("python", bool, False, "Print only the path of the Python that runs the commands"),
])
def extras(args: list[str], options: Options) -> int:
    from nnet3py.extras import EXTRAS, install_command, missing_packages
    from nnet3py.io.streams import write_text

    if options.python:
        write_text("-", f"{sys.executable}\n")
        return 0
    unknown = [name for name in args if name not in EXTRAS]
    if unknown:
        raise UsageError(f"there is no extra '{unknown[0]}'", f"expected some of {', '.join(EXTRAS)}")
    lines, missing = [], False
    for name in args or EXTRAS:
        packages = missing_packages(name)
        missing |= bool(packages)
        state = f"{', '.join(packages)} missing; install: {install_command(name)}" if packages else "installed"
        lines.append(f"{name:9} {EXTRAS[name]}: {state}")
    write_text("-", "\n".join(lines) + "\n")
    return 1 if missing and args else 0


_HOST = "127.0.0.1"


@kaldi_command("docs", "Start here", "Open the documentation in a browser; no network is needed.",
               launcher=False, usage="""
Open the documentation in a browser. This command serves the pages, to this machine only, until it is ended (ctrl-C).
The argument is the name of a page, such as training, of a command, or of a public class or function in Python.

Usage:  nnet3py docs [options] [<page>]

e.g.:
 nnet3py docs
 nnet3py docs fine-tuning
 nnet3py docs nnet3-compute
 nnet3py docs Recognizer
 xdg-open $(nnet3py docs --print-path)
""", arguments=(0, 1), options=[
    option("print-path", bool, False, "Only print the path of the page's file; search does not work in such a page"),
    option("port", int, 0, "Port on this machine at which the pages are served (0: any free port)", least=0,
           most=65535),
    option("browser", bool, True, "Open a browser; false: only print the address of the documentation"),
])
def docs(args: list[str], options: Options) -> int:
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
    """Return the folder of the HTML documentation, in the package or built by ``make docs``; Nnet3Error if missing."""
    from pathlib import Path

    package = Path(__file__).resolve().parents[2]
    for folder in (package / "site", package.parent / "build" / "site"):
        if (folder / "index.html").is_file():
            return folder
    pages = package.parent / "docs"
    raise Nnet3Error("the documentation was not built for this installation",
                     f"'make docs' in the checkout builds it; its sources are the texts in {pages}" if pages.is_dir()
                     else "install a wheel that was made by 'make dist', which contains it")


def find_page(folder: Path, name: str) -> str:
    """Return the address, relative to ``folder``, of a page, command or public name; UsageError for other names."""
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
    """Make a server of the files in ``folder``, reachable from this machine only; Nnet3Error if the port is in use."""
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    try:
        return ThreadingHTTPServer((_HOST, port), partial(Quiet, directory=str(folder)))
    except (OSError, OverflowError) as error:
        raise Nnet3Error(f"port {port} of this machine cannot be used ({error})",
                         "leave out --port, to get any free port") from None


@kaldi_command("bin-path", "Start here", "Print the folder of the launchers with Kaldi's names, for PATH.",
               launcher=False, usage="""
Print the folder of the launchers with Kaldi's names, for PATH.

Usage:  nnet3py bin-path

e.g.:
 export PATH=$(nnet3py bin-path):$PATH
""", arguments=(0, 0), options=[QUIET])
def bin_path(args: list[str], options: Options) -> None:
    from nnet3py.drivers.executor import launcher_folder

    print(launcher_folder())


NO_SUPPORT = 1             # exit status
LARGEST_ERROR = 1.0e-3     # allowed difference of sums of 100 float32 products


@kaldi_command("cuda-gpu-available", "Start here", "Test whether a GPU can be used.", """
Test, with a small computation, whether a GPU can be used. The exit status is 0 if a GPU works, 1 if there is none, and
255 if there is a GPU that does not work.

Usage:  cuda-gpu-available

e.g.: cuda-gpu-available && echo yes
""", arguments=(0, 0))
def cuda_gpu_available(args: list[str], options: Options) -> int:
    import socket

    from nnet3py.cli.process.option_groups import has_gpu_files

    log.log(f"\n\n### IS CUDA GPU AVAILABLE? '{socket.gethostname()}' ###")
    if not has_gpu_files():
        print_error_text("### CUDA WAS NOT COMPILED IN! ###\nThis machine has no NVIDIA GPU that the process can see; "
                         "everything is computed on the CPU.\n")
        return NO_SUPPORT
    try:
        error = _largest_error()
    except Exception as cause:       # drivers and compilers fail in many ways
        print_error_text("### WE DID NOT GET A CUDA GPU!!! ###\n### 'nvidia-smi' shows the status of GPUs, "
                         "'numba -s' what is installed to compute on them.\n")
        raise DeviceError(f"The GPU cannot be used: {cause}") from cause
    if not error < LARGEST_ERROR:
        raise DeviceError(f"a matrix product on the GPU differs from the CPU's by {error:g}, expected less than "
                          f"{LARGEST_ERROR:g}", "do not use this GPU: --use-gpu=no computes on the CPU")
    print_error_text("### HURRAY, WE GOT A CUDA GPU FOR COMPUTATION!!! ##\n### Test OK!\n")
    return 0


def _largest_error() -> float:
    """Compute a matrix product on the GPU; return its largest difference from numpy's product."""
    import numpy as np

    from nnet3py.ops import get_ops

    ops, size = get_ops("cuda"), 100
    a = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    matrix, product = (ops.new_vector(size * size).reshape(size, size) for _ in range(2))
    ops.copy_in(matrix, a)
    ops.add_mat_mat(product, matrix, matrix, 1.0, 0.0)
    return float(np.abs(ops.copy_out(product) - a @ a).max())


@kaldi_command("cuda-compiled", "Start here", "Return exit status 0 if a GPU can be used, 1 if not.", """
Return the exit status 0 if a GPU can be used, 1 if not; print nothing.

Usage:  cuda-compiled

e.g.: if ! cuda-compiled; then echo "computing on the CPU"; fi
""", arguments=(0, 0))
def cuda_compiled(args: list[str], options: Options) -> int:
    from nnet3py.cli.process.option_groups import why_no_gpu

    return 0 if why_no_gpu() is None else NO_SUPPORT


@kaldi_command("tune", "Start here",
               "Choose by measurement whether BLAS computes matrix products on this machine.", launcher=False, usage="""
Measure on this machine which matrix products are faster by nnet3py's own code and which by BLAS, and keep the result as
a rule for all later commands, in the folder of compiled kernels.

nnet3py has a rule for common kinds of processors; measure on other processors, or to check the rule. Measuring takes
some seconds, during which the machine should do nothing else.

Usage:  nnet3py tune [options]

e.g.:
 nnet3py tune
 nnet3py tune --dry-run
 nnet3py tune --show
 nnet3py tune --reset
""", arguments=(0, 0), detached_values=True, options=[
    QUIET,
    option("dry-run", bool, False, "Measure and print, but do not keep the rule"),
    option("show", bool, False, "Only print the present rule"),
    option("reset", bool, False, "Only go back to the built-in rule"),
])
def tune(args: list[str], options: Options) -> None:
    from nnet3py.engine import product_rule

    if options.reset:
        was_measured = product_rule.drop()
        log.log("Removed the measured rule; the built-in rule is used." if was_measured
                else "There is no measured rule; the built-in rule is used.")
        return
    if options.show:
        _show()
        return
    from nnet3py.engine.threads import num_threads
    from nnet3py.ops import device
    from nnet3py.ops.product_tuning import measure, rule_of

    print(f"{device.describe('cpu')}; GFLOP/s with {num_threads()} threads")
    print(f"{'product':20s} {'smallest dimension':20s} {'tiles':>8s} {'BLAS':>8s}   chosen")
    results = []
    for result in measure():
        size = f"{product_rule.LARGE} or more" if result.is_large else f"below {product_rule.LARGE}"
        print(f"{result.form:20s} {size:20s} {result.tiles / 1e9:8.1f} {result.blas / 1e9:8.1f}   {result.chosen}",
              flush=True)
        results.append(result)
    rule = rule_of(results)
    if rule == product_rule.built_in():
        log.log("This is the built-in rule for this processor.")
    if not options.dry_run:
        log.log(f"Kept in {product_rule.keep(rule)}")


def _show() -> None:
    """Print for each class of matrix products whether own code ("tiles") or BLAS computes it."""
    from nnet3py.engine import product_rule

    print("built in" if product_rule.measured() is None else f"measured: {product_rule.rule_file()}")
    for number in range(product_rule.NUM_CLASSES):
        form, is_large = divmod(number, 2)
        size = f"{product_rule.LARGE} or more" if is_large else f"below {product_rule.LARGE}"
        way = "BLAS" if product_rule.rule() >> number & 1 else "tiles"
        print(f"{product_rule.FORMS[form]:20s} {size:20s} {way}")


@kaldi_command("resident", "Start here", "Run a script; the programs of nnet3py that it calls start faster.",
               launcher=False, usage="""
Run a command, such as one of Kaldi's scripts, beside a process that has loaded
nnet3py. Each program of nnet3py that the command calls is run by a copy of this
process, which starts in milliseconds instead of tenths of a second. The process
ends with the command. Linux only.

Usage:  nnet3py resident [options] <command> [<argument> ...]

e.g.:
 nnet3py resident steps/nnet3/train_raw_dnn.py --dir exp/tdnn ...
""", arguments=(1, None), options=[QUIET], runs_program=True)
def resident(args: list[str], options: Options) -> int:
    if not (system.TELLS_OF_PROCESSES and system.CAN_FORK):
        raise Nnet3Error("nnet3py resident needs Linux, since it reads the state of processes in /proc",
                         "run the command without 'nnet3py resident'")
    from nnet3py.cli.process.resident_server import ResidentServer, load_everything

    load_everything()
    server = ResidentServer()
    status = server.run(args)
    log.vlog(1, f"{server.num_served} commands were run by copies of this process, {server.num_sent_away} by their own")
    return status
