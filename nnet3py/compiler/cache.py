"""The compiler with a cache: compiled computations by request. Kaldi: ``CachingOptimizingCompiler``.

The cache, the folder on disk and files hold Kaldi's commands, from which computations for more sequences are made. The
computations for a device (compiler/fuse/) are made from them when they are asked for, and kept beside them.
"""
from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

from nnet3py.compiler.check import check_computation, check_loaded
from nnet3py.compiler.computation import Computation, gc_paused
from nnet3py.compiler.computation_file import read_cache, write_cache
from nnet3py.compiler.disk_cache import computation_key, disk_cache, flags_of, structure_of
from nnet3py.compiler.fuse import fusion_steps
from nnet3py.compiler.generate import generate_computation
from nnet3py.compiler.optimize import OptimizeOptions, optimize
from nnet3py.compiler.optimize.passes import optimization_steps, to_kaldi_form
from nnet3py.compiler.optimize_options import DEFAULT_CAPACITY, CompilerOptions
from nnet3py.compiler.request import ComputationRequest
from nnet3py.compiler.shortcut import decompose, expand_computation
from nnet3py.errors import CheckError, Nnet3Error, NotComputableError
from nnet3py.io.object_files import read_object, write_object
from nnet3py.log import verbose
from nnet3py.network.nnet import Nnet

logger = logging.getLogger(__name__)

MOST_UNUSED_WRITTEN = 2    # computations that were read from a cache file and not used, to be written again
CHECK_EVERY_PASS = 3       # from this --verbose on the computation is checked after every pass, as in Kaldi

__all__ = ["CachingCompiler", "CompilerOptions", "OptimizeOptions"]


_Key = tuple[int, ComputationRequest]      # the version of the network, and the request


class CachingCompiler:
    """A compiler for one network, which keeps the most recently used computations.

    Parameters
    ----------
    nnet : the network; after a structural edit (a new ``version``) everything is compiled again
    options : options of the optimizer
    capacity : the number of computations that are kept
    use_shortcut : whether to compile a request for many equal sequences for two of them, and extend the result
    cache_dir : a folder that shares computations with other processes (see disk_cache.py); None: the folder that the
        environment variable NNET3PY_COMPUTATION_CACHE names; "": no folder
    """

    def __init__(self, nnet: Nnet, options: OptimizeOptions | None = None, capacity: int = DEFAULT_CAPACITY,
                 use_shortcut: bool = True, cache_dir: str | os.PathLike[str] | None = None) -> None:
        if capacity < 1:
            raise Nnet3Error(f"a cache of {capacity} computations was asked for, expected 1 or more",
                             "use a larger --compiler.cache-capacity")
        self.nnet, self.options = nnet, options or OptimizeOptions()
        self.capacity, self.use_shortcut = capacity, use_shortcut
        self.seconds = {"compilation": 0.0, "optimization": 0.0, "shortcut expansion": 0.0, "checking": 0.0}
        self.seconds_total = self.seconds_io = 0.0
        self._kept: OrderedDict[_Key, Computation] = OrderedDict()
        self._fused: dict[_Key, Computation] = {}     # the computations as they are handed out
        self._loaded: set[_Key] = set()         # computations from files
        self._unused: set[_Key] = set()         # computations from files that nobody has asked for
        self._disk = disk_cache(cache_dir)
        self._structure = -1, b""               # the network's version, and the digest of its structure

    @classmethod
    def with_options(cls, nnet: Nnet, optimize: OptimizeOptions | None = None,
                     options: CompilerOptions | None = None) -> CachingCompiler:
        """Make a compiler with the values of the ``--compiler.*`` options of commands."""
        options = options or CompilerOptions()
        return cls(nnet, optimize, options.cache_capacity, options.use_shortcut, options.cache_dir)

    def compile(self, request: ComputationRequest) -> Computation:
        """Return the computation for a request: the very same object for an equal request, as long as it is kept.

        Raises NotComputableError: an output row cannot be computed from the inputs; Nnet3Error: the network has no such
        inputs or outputs, or cannot be compiled.
        """
        start, io_before = perf_counter(), self.seconds_io
        computation = self._fuse(request, self._find(request))
        self.seconds_total += perf_counter() - start - (self.seconds_io - io_before)
        return computation

    def _fuse(self, request: ComputationRequest, plain: Computation) -> Computation:
        """Return the computation with fused commands, kept from an earlier call if its components still only copy."""
        key = self.nnet.version, request
        computation = self._fused.get(key)
        if computation is not None and computation.fits(self.nnet):
            return computation
        computation = plain
        for name, computation in fusion_steps(plain, self.nnet, self.options):
            if verbose() >= CHECK_EVERY_PASS:
                self._check(computation, name, thorough=True)
        for changed in (plain, computation):
            changed.invalidate_caches()
        self._fused[key] = computation
        return computation

    def _find(self, request: ComputationRequest, take_loaded: bool = True) -> Computation:
        key = self.nnet.version, request
        computation = self._kept.get(key) if take_loaded or key not in self._loaded else None
        if computation is not None:
            self._kept.move_to_end(key)
            self._unused.discard(key)
            return computation
        computation = self._from_disk(key) if take_loaded else None
        if computation is None:
            computation = self._compile(request)
            self._loaded.discard(key)
            if take_loaded:                     # a computation that is only to be extended is not stored
                self._to_disk(request, computation)
        self._keep(key, computation)
        return computation

    def _keep(self, key: _Key, computation: Computation) -> None:
        self._kept[key] = computation
        self._kept.move_to_end(key)
        self._fused.pop(key, None)
        while len(self._kept) > self.capacity:
            gone = self._kept.popitem(last=False)[0]
            self._loaded.discard(gone)
            self._fused.pop(gone, None)

    @gc_paused
    def _compile(self, request: ComputationRequest) -> Computation:
        shorter = decompose(request) if self.use_shortcut else None
        if shorter is not None:
            with suppress(NotComputableError):      # raised again below, for all sequences
                # The rows in a file are checked for running only, so a computation from a file is not extended.
                small, num_sequences = self._find(shorter[0], take_loaded=False), shorter[1]
                with self._timed("shortcut expansion"):
                    computation = expand_computation(small, self.nnet, num_sequences)
                if verbose() >= CHECK_EVERY_PASS:
                    self._check(computation, "expansion", thorough=True)
                return computation
        with self._timed("compilation"):
            computation = generate_computation(self.nnet, request)
        if verbose() >= CHECK_EVERY_PASS:
            self._check(computation, "compilation", check_rewrite=True, thorough=True)
        computation = self._optimize(computation, max(int(io.indexes[:, 1].max()) for io in request.outputs))
        self._check(computation, "optimization")
        computation.invalidate_caches()
        return computation

    def _optimize(self, computation: Computation, last_t: int) -> Computation:
        options = self.options.for_outputs_until(last_t)
        if verbose() < CHECK_EVERY_PASS:
            with self._timed("optimization"):
                return optimize(computation, self.nnet, options)
        optimized = computation
        for name, optimized in optimization_steps(computation, self.nnet, options):
            self._check(optimized, name, thorough=True)
        return optimized

    def _check(self, computation: Computation, after: str, **options: bool) -> None:
        with self._timed("checking"):
            check_computation(computation, self.nnet, after=after, **options)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds[what] += perf_counter() - start

    # -- the cache on disk -----------------------------------------------------------------------------------------

    def _from_disk(self, key: _Key) -> Computation | None:
        if self._disk is None:
            return None
        start = perf_counter()
        computation = self._disk.load(self._disk_key(key[1]), lambda loaded: check_loaded(loaded, self.nnet, key[1]))
        if computation is not None:
            self._loaded.add(key)
        self.seconds_io += perf_counter() - start
        return computation

    def _to_disk(self, request: ComputationRequest, computation: Computation) -> None:
        if self._disk is not None:
            start = perf_counter()
            self._disk.store(self._disk_key(request), computation)
            self.seconds_io += perf_counter() - start

    def _disk_key(self, request: ComputationRequest) -> str:
        if self._structure[0] != self.nnet.version:
            self._structure = self.nnet.version, structure_of(self.nnet)
        return computation_key(self._structure[1], flags_of(self.nnet), request, self.options, self.use_shortcut)

    # -- files -----------------------------------------------------------------------------------------------------

    def read_cache(self, rxfilename: str) -> int:
        """Add the computations of a cache file; returns their number. Kaldi: ReadCache.

        Computations that do not fit the network are left out with a warning; so are all of them if they were compiled
        with other options. What is left out is compiled when it is needed. Raises SpecifierError, Nnet3Error: the file
        cannot be opened; FormatError: the file is not a cache, or one of another version.
        """
        start = perf_counter()
        pairs = read_object(rxfilename, lambda reader: read_cache(reader, self.options))
        if pairs is None:
            logger.warning("The computations in %s were compiled with other --optimization options; they are not used",
                           rxfilename)
        taken = 0
        for request, computation in pairs or []:
            try:
                check_loaded(computation, self.nnet, request)
            except CheckError as error:
                logger.warning("A computation in %s is not one of this network and will be compiled again: %s",
                               rxfilename, error)
                continue
            key = self.nnet.version, request
            self._loaded.add(key)
            self._unused.add(key)
            self._keep(key, computation)
            taken += 1
        self.seconds_io += perf_counter() - start
        return taken

    def write_cache(self, wxfilename: str, binary: bool = True) -> None:
        """Write the cached computations to a file in Kaldi's format, the most recently used last. Kaldi: WriteCache.

        Of the computations that were read from a file but never used, only the last few are written: each iteration of
        a training reads the file of the iteration before, and reading takes as long as compiling.
        """
        start = perf_counter()
        unused = [key for key in self._kept if key in self._unused]
        left_out = set(unused[:-MOST_UNUSED_WRITTEN])
        pairs = [(key[1], to_kaldi_form(computation, self.nnet, self.options))
                 for key, computation in self._kept.items() if key[0] == self.nnet.version and key not in left_out]
        write_object(wxfilename, lambda writer: write_cache(writer, self.options, pairs), binary)
        self.seconds_io += perf_counter() - start

    def log_time(self) -> None:
        """Log the time spent on compiling and on reading and writing cache files, if there was any."""
        if self.seconds_total > 0.0 or self.seconds_io > 0.0:
            misc = self.seconds_total - sum(self.seconds.values())
            logger.info("%.3g seconds taken in nnet3 compilation total (breakdown: %.3g compilation, %.3g "
                        "optimization, %.3g shortcut expansion, %.3g checking, 0 computing indexes, %.3g misc.) "
                        "+ %.3g I/O.",
                        self.seconds_total, *self.seconds.values(), misc, self.seconds_io)
