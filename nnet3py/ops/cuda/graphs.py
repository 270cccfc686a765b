"""Launches that are captured once and replayed with a single call: CUDA graphs, through the driver's own interface.

numba has no interface to graphs, but its streams are the driver's: between begin and end of a capture, all launches and
copies in this thread's stream are recorded and not run. A graph holds the addresses and numbers of that time.
"""
from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

from nnet3py.errors import DeviceError
from nnet3py.ops import device
from nnet3py.ops.cuda import cublas, memory

logger = logging.getLogger(__name__)

RELAXED = 2         # CUstreamCaptureMode: other calls of the driver go on as usual
_POINTER = ctypes.c_void_p
_FUNCTIONS: dict[str, list[Any]] = {
    "cuStreamBeginCapture_v2": [_POINTER, ctypes.c_int],
    "cuStreamEndCapture": [_POINTER, ctypes.POINTER(_POINTER)],
    "cuGraphInstantiateWithFlags": [ctypes.POINTER(_POINTER), _POINTER, ctypes.c_ulonglong],
    "cuGraphGetNodes": [_POINTER, _POINTER, ctypes.POINTER(ctypes.c_size_t)],
    "cuGraphLaunch": [_POINTER, _POINTER],
    "cuGraphDestroy": [_POINTER],
    "cuGraphExecDestroy": [_POINTER],
}


class CaptureFailed(Exception):
    """Failure of the driver to capture launches or make a graph; nothing was run."""


@cache
def driver() -> Any:
    """Return the driver's functions for graphs; None for an old driver, and in the simulator."""
    if device.is_simulated():
        return None
    try:
        loaded = device.driver_library()
        for name, types in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = ctypes.c_int, types
    except (AttributeError, OSError) as error:
        logger.warning("Kernels are launched one by one: the driver has no CUDA graphs (%s)", error)
        return None
    return loaded


def _check(status: int, what: str) -> None:
    if status != 0:
        raise CaptureFailed(f"{what}: the driver's status is {status}")


class Graph:
    """CUDA graph: captured launches, which one call replays.

    Attributes
    ----------
    num_nodes : number of launches and copies in the graph
    """

    def __init__(self, functions: Any, graph: Any) -> None:
        self._functions = functions
        self._executable = _POINTER()
        count = ctypes.c_size_t(0)
        try:
            _check(functions.cuGraphGetNodes(graph, None, ctypes.byref(count)), "counting a graph's nodes")
            _check(functions.cuGraphInstantiateWithFlags(ctypes.byref(self._executable), graph, 0), "making a graph")
        finally:
            functions.cuGraphDestroy(graph)
        self.num_nodes = count.value
        weakref.finalize(self, functions.cuGraphExecDestroy, self._executable)

    def launch(self) -> None:
        """Queue the whole graph in this thread's stream. Raises DeviceError: the driver cannot launch the graph."""
        status = self._functions.cuGraphLaunch(self._executable, memory.stream_handle())
        if status != 0:
            raise DeviceError(f"a CUDA graph could not be launched (status {status})",
                              "NNET3PY_CUDA_GRAPHS=0 computes without graphs")


def capture(run: Callable[[], None], functions: Any = None) -> Graph:
    """Call ``run``, and return a graph of the launches and copies that it queues in this thread's stream.

    They are recorded and not executed.

    Parameters
    ----------
    run : function that queues launches
    functions : the driver's functions (default: those of :func:`driver`, which must not be None)

    Raises
    ------
    HostNeeded : ``run`` needs the host for a copy, a decision or memory
    CaptureFailed : the driver cannot capture
    """
    functions = functions or driver()
    stream, graph = memory.stream_handle(), _POINTER()
    _check(functions.cuStreamBeginCapture_v2(stream, RELAXED), "beginning to capture")
    memory.set_capturing(True)
    try:
        run()
    except BaseException:
        functions.cuStreamEndCapture(stream, ctypes.byref(graph))
        if graph:
            functions.cuGraphDestroy(graph)
        raise
    finally:
        memory.set_capturing(False)
    _check(functions.cuStreamEndCapture(stream, ctypes.byref(graph)), "capturing")
    return Graph(functions, graph)


MOST_REPLAYS = 64       # number of graphs that :func:`replay` keeps for each thread
_local = threading.local()


class Replays:
    """Cache of CUDA graphs: launches are captured when they are requested for the second time.

    Parameters
    ----------
    most : number of graphs to keep; the least recently used ones are dropped
    """

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._graphs: OrderedDict[Any, Graph | None] = OrderedDict()

    def run(self, key: Any, queue: Callable[[], None]) -> None:
        """Call ``queue()``, whose launches are determined by ``key``, or launch the graph captured for the key.

        While a capture is in progress, the launches become part of it.
        """
        if memory.is_capturing() or driver() is None or os.environ.get("NNET3PY_CUDA_GRAPHS", "1") == "0":
            queue()
            return
        if key in self._graphs and self._graphs[key] is None:
            try:
                self._graphs[key] = capture(queue)
            except CaptureFailed as error:
                logger.debug("launches are not captured: %s", error)
        graph = self._graphs.setdefault(key, None)
        self._graphs.move_to_end(key)
        if len(self._graphs) > self._most:
            self._graphs.popitem(last=False)
        if graph is None:
            queue()
        else:
            graph.launch()


def replay(run: Callable[..., None], *args: Any) -> None:
    """Call ``run(*args)``, whose launches are determined by ``args``; for the same arguments again, launch a graph.

    Arrays are the same if their address in device memory, shape and strides are.
    """
    replays: Replays = _local.__dict__.setdefault("replays", Replays(MOST_REPLAYS))
    key = run, cublas.tf32_is_allowed(), *(_identity(arg) for arg in args)
    replays.run(key, lambda: run(*args))


def _identity(arg: Any) -> Any:
    """Return a hashable key of an argument: address, shape and strides of an array, else the argument itself."""
    shape = getattr(arg, "shape", None)
    return arg if shape is None else (memory.place_of(arg), shape, arg.strides)
