"""nnet3py serve: recognition as a service over WebSockets."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.option_groups import QUIET
from nnet3py.cli.process.options import Options, declared, fields_from, option
from nnet3py.cli.recognition.recognizers import DEVICE, MODEL, device, model_options, models_of, warmed_recognizer
from nnet3py.errors import UsageError
from nnet3py.option_fields import settings_of
from nnet3py.recognition.server.options import Limits, ServerOptions
from nnet3py.system import give_back_memory, share_heaps

if TYPE_CHECKING:
    from socket import socket

    from nnet3py.recognition.recognizer import Recognizer
    from nnet3py.recognition.server.metrics import Place
    from nnet3py.recognition.server.models import ModelLoader, Reloaded
    from nnet3py.recognition.server.protocol import StreamSettings
    from nnet3py.recognition.server.server import RecognitionServer

_GARBAGE_THRESHOLD = 2000    # objects, fewer than for other commands, because streams have large arrays
_COLLECT_SECONDS = 1.0       # after a model's last stream has ended
_HEAPS = 2                   # memory arenas of malloc that threads share


@kaldi_command("serve", "Recognition",
               "Serve recognition over WebSockets, to vosk's clients and browsers.", launcher=False, usage="""
Serve recognition over WebSockets in the public protocol of vosk-server, so that its clients work, with a web page to
try it in a browser. /health reports the server's state, /metrics its counters (Prometheus). By default it accepts
connections from this machine only; see --host. SIGTERM or Ctrl-C ends it.

Of several model folders, or a folder of model folders, clients choose by name: {"config": {"model": "ko"}}. At SIGHUP
the server reloads models whose files have changed, for new connections; replace files, do not write into them.

Usage:  nnet3py serve [options] <model-folder> [<model-folder> ...]
or:     nnet3py serve --demo [options]

e.g.:
 nnet3py serve --demo
 nnet3py serve --lang=ko
 nnet3py serve --default-model=ko /srv/models
 nnet3py serve --lang=ko --num-processes=4
 nnet3py serve --port=8080 --host=0.0.0.0 --max-connections=20 exp/chain/tdnn1a_online
""", arguments=(0, None), detached_values=True, options=[
    QUIET,
    *MODEL, *DEVICE,
    option("default-model", str, "", "Name of the model of clients that name none (empty: the first)"),
    option("num-processes", int, 1, "Number of processes, which share the port and the models in memory; a new "
           "connection goes to the one with the fewest", least=1),
    option("num-threads", int, 0, "Computing threads of each process, which decode four times as many streams at a "
           "time (0: its share of the cores)"),
    *declared(settings_of(ServerOptions)), *declared(settings_of(Limits)),
    option("exact-phrases", bool, False, "Recognize only the phrases of clients' phrase lists; refuse lists with words "
           "that the model lacks, and models without lookahead graphs. false: as vosk, with a warning about what is "
           "left out"),
    option("allow-origin", "strings", (), "Accept browsers' connections from pages of this origin, such as "
           "https://example.org (*: any); may be repeated"),
])
def serve(args: list[str], options: Options) -> None:
    from nnet3py.cli.recognition.processes import Supervisor, check_processes
    from nnet3py.engine.threads import num_threads, set_num_threads
    from nnet3py.recognition.scheduler import THREADS_PER_CORE
    from nnet3py.recognition.server.server import RecognitionServer, require_websockets, run_server
    from nnet3py.recognition.server.session import StreamThreads

    paths = models_of(args, options)
    server_options = fields_from(options, ServerOptions(limits=fields_from(options, Limits()),
                                                        allowed_origins=options.allow_origin))
    server_options.check()
    check_processes(options.num_processes, device(options))
    require_websockets()
    count = options.num_processes
    set_num_threads(options.num_threads or max(1, num_threads() // count))
    share_heaps(_HEAPS)
    loader = model_loader(paths, options)
    loader.load()
    collect_often()

    def begin(settings: StreamSettings) -> Any:
        assert settings.model is not None, "there is always one"
        recognizer = settings.model.recognizer
        if options.exact_phrases:
            return recognizer.stream(settings.sample_rate, phrases=settings.phrases)
        return recognizer.stream(settings.sample_rate, phrase_list=settings.phrases)

    def reload() -> Reloaded:
        reloaded = loader.reload()
        collect_often()
        return reloaded

    def streams() -> StreamThreads:
        return StreamThreads(begin, THREADS_PER_CORE * num_threads())

    def server() -> RecognitionServer:
        return RecognitionServer(streams(), server_options, loader.models, reload)

    def server_of_process(connections: socket, place: Place) -> RecognitionServer:
        set_num_threads(threads)
        return RecognitionServer(streams(), server_options, loader.models, listener=connections, place=place)

    def listening(address: str) -> None:
        processes = f", {count} processes" if count > 1 else ""
        log.log(f"Listening on {address} (WebSocket: {address.replace('http', 'ws', 1)}){processes}; Ctrl-C ends it.")

    log.log(f"Models: {', '.join(loader.models.by_name)}")
    threads = num_threads()
    if count == 1:
        run_server(server, listening)
    else:
        Supervisor(count, server_options, server_of_process, reload).run(listening)


def model_loader(paths: list[str], options: Options) -> ModelLoader:
    """Return the loader of the models in ``paths``, which also reloads models whose files have changed."""
    import weakref

    from nnet3py.recognition.model_folder import files_of_model
    from nnet3py.recognition.server.models import ModelLoader, model_places

    if options.graph and len(model_places(paths)) > 1:
        raise UsageError(f"--graph={options.graph} is for a single model, but there are "
                         f"{', '.join(model_places(paths))}")
    where, values = device(options), model_options(options)

    def read(path: str) -> Recognizer:
        recognizer = warmed_recognizer(path, options, where)
        recognizer.looped.warm_up()             # for as many streams at once as there may be
        weakref.finalize(recognizer, collect_soon).atexit = False
        return recognizer

    return ModelLoader(paths, read, lambda path: files_of_model(path, options.graph, values), options.default_model)


def collect_often() -> None:
    """Run Python's garbage collector now, and from now on more often, but not on objects that exist now."""
    import gc

    gc.unfreeze()               # includes models that are no longer served
    gc.collect()
    give_back_memory()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 10, 10)


def collect_soon() -> None:
    """Run the garbage collector a little later, so that the memory of a model that is no longer served is freed."""
    import threading

    timer = threading.Timer(_COLLECT_SECONDS, collect_often)
    timer.daemon = True
    timer.start()
