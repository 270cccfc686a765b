"""What ``nnet3py --version`` prints: the package, and everything that decides its numbers and speed."""
from __future__ import annotations

import platform


def version_text() -> str:
    """One line each for nnet3py, Python, numba, numpy, the processor, kernels, BLAS, the threads and the device."""
    import llvmlite
    import numba
    import numpy
    import scipy

    import nnet3py
    from nnet3py.engine.cache_folder import cache_folder
    from nnet3py.engine.processor import processor
    from nnet3py.engine.shipped import usable_folder
    from nnet3py.engine.threads import num_threads
    from nnet3py.log import KALDI_VERSION

    made_for, shipped = processor(), usable_folder()
    return "\n".join([
        f"nnet3py {nnet3py.__version__} (behaves as Kaldi {KALDI_VERSION})",
        f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
        f"numba {numba.__version__}, llvmlite {llvmlite.__version__}",
        f"numpy {numpy.__version__}, scipy {scipy.__version__}",
        f"machine code: {made_for.kind} ({made_for.model})",
        f"kernels: {'of the package, ' + shipped.name if shipped else f'compiled here, in {cache_folder()}'}",
        f"BLAS: {_blas()}",
        f"threads: {num_threads()}",
        f"device: {_device()}",
    ])


def _blas() -> str:
    """The BLAS library that scipy's products call."""
    import threadpoolctl

    from nnet3py.ops import get_ops

    get_ops("cpu")   # loads it
    libraries = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    ours = [library for library in libraries if "scipy" in library["filepath"]] or libraries
    if not ours:
        return "unknown"
    return f"{ours[0]['internal_api']} {ours[0]['version']} ({ours[0].get('architecture', 'unknown')})"


def _device() -> str:
    from nnet3py.cli.process.compute_setup import why_no_gpu

    reason = why_no_gpu()
    return "cpu and cuda" if reason is None else f"cpu ({reason})"
