"""Run vosk-server's asr_server.py with any version of websockets: newer ones call handlers without a path.

Without pings: on a machine that is slower than real time they come back after the sound that waits, so that it would
cut off all clients, and nothing could be measured.

    python run_vosk_server.py asr_server.py PORT MODEL
"""
from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Awaitable, Callable
from inspect import signature
from typing import Any

import websockets


def main() -> None:
    """Serve until a signal comes."""
    program, port, model = sys.argv[1:]
    serve: Callable[..., Any] = websockets.serve

    def serve_any(handler: Callable[..., Awaitable[None]], *args: Any) -> Any:
        takes_path = len(signature(handler).parameters) == 2
        return serve((lambda socket: handler(socket, "/")) if takes_path else handler, *args,
                     ping_interval=None)

    websockets.serve = serve_any        # type: ignore[assignment]
    os.environ |= {"VOSK_SERVER_INTERFACE": "127.0.0.1", "VOSK_SERVER_PORT": port}
    sys.argv = [program, model]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
