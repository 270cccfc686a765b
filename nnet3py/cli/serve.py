"""nnet3py serve: recognition as a service, over WebSockets."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3py import log
from nnet3py.cli.command import kaldi_command
from nnet3py.cli.option_groups import QUIET
from nnet3py.cli.options import Options, declared, option
from nnet3py.cli.recognizers import DEVICE, MODEL, device, single_model, warmed_recognizer
from nnet3py.option_fields import settings_of, with_values
from nnet3py.recognition.server_limits import Limits
from nnet3py.recognition.server_options import ServerOptions
from nnet3py.system import share_heaps

if TYPE_CHECKING:
    from nnet3py.recognition.server import RecognitionServer
    from nnet3py.recognition.server_protocol import StreamSettings

_GARBAGE_THRESHOLD = 2000    # objects: streams have large arrays
_HEAPS = 2                             # that threads share


@kaldi_command("serve", usage="""
Serve recognition over WebSockets, in the public protocol of vosk-server, so that its clients work; with a page to try
it in a browser, under the address that is shown. /health tells whether the server is well, /metrics what it did
(Prometheus). It can be reached only from this machine, unless --host says otherwise, and ends on SIGTERM or Ctrl-C.

Usage:  nnet3py serve [options] <model-folder>
or:     nnet3py serve --demo [options]

e.g.:
 nnet3py serve --demo
 nnet3py serve --lang=ko
 nnet3py serve --port=8080 --host=0.0.0.0 --max-connections=20 exp/chain/tdnn1a_online
""", arguments=(0, 1), detached_values=True, options=[
    QUIET,
    *MODEL, *DEVICE,
    option("num-threads", int, 0, "Threads that compute; four times as many streams are worked on at a time (0: one "
           "for each core)"),
    *declared(settings_of(ServerOptions)), *declared(settings_of(Limits)),
    option("exact-phrases", bool, False, "Clients' phrase lists are all that can be said, and are refused if the model "
           "lacks a word or a lookahead graph; otherwise they are taken as vosk does, with a warning about what is "
           "left out"),
    option("allow-origin", "strings", (), "Let pages of this other server connect from browsers, such as "
           "https://example.org (*: of all); may be given more than once"),
])
def serve(args: list[str], options: Options) -> None:
    """Load the model, then serve until a signal comes."""
    from nnet3py.engine.threads import num_threads, set_num_threads
    from nnet3py.recognition.server import RecognitionServer, require_websockets, run_server

    model = single_model(args, options)
    chosen = server_options(options, model)
    chosen.check()
    require_websockets()
    set_num_threads(options.num_threads)
    share_heaps(_HEAPS)
    recognizer = warmed_recognizer(model, options, device(options))
    recognizer.looped.warm_up()             # for as many streams at once as there may be
    collect_often()

    def begin(settings: StreamSettings) -> Any:
        if options.exact_phrases:
            return recognizer.stream(settings.sample_rate, phrases=settings.phrases)
        return recognizer.stream(settings.sample_rate, phrase_list=settings.phrases)

    def server() -> RecognitionServer:
        from nnet3py.recognition.scheduler import THREADS_PER_CORE
        from nnet3py.recognition.stream_threads import StreamThreads

        return RecognitionServer(StreamThreads(begin, THREADS_PER_CORE * num_threads()), chosen)

    run_server(server, lambda address: log.log(
        f"Listening on {address} (WebSocket: {address.replace('http', 'ws', 1)}); Ctrl-C ends it."))


def collect_often() -> None:
    """Let Python look for circular garbage as often as it does by default, but not among the objects there are now."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, 10, 10)


def server_options(options: Options, model: str) -> ServerOptions:
    """The server's options from the command line."""
    from pathlib import Path

    limits = with_values(Limits(), options.as_dict())
    return with_values(ServerOptions(limits=limits, allowed_origins=options.allow_origin,
                                     model_name=Path(model).resolve().name), options.as_dict())
