"""cuda-gpu-available and cuda-compiled: whether a GPU can be used, as recipes ask."""
from __future__ import annotations

from nnet3py import log
from nnet3py.cli.process.command import kaldi_command
from nnet3py.cli.process.options import Options, print_error_text
from nnet3py.errors import DeviceError

NO_SUPPORT = 1
LARGEST_ERROR = 1.0e-3     # of sums of 100 float32 products


@kaldi_command("cuda-gpu-available", group="Start here", help="Test whether a GPU can be used.", usage="""
Test whether a GPU can be used, with a small computation. The exit status is 0 if it can, 1 if there is none, and 255 if
there is one that does not work.

Usage:  cuda-gpu-available

e.g.: cuda-gpu-available && echo yes
""", arguments=(0, 0))
def cuda_gpu_available(args: list[str], options: Options) -> int:
    """Test the GPU."""
    import socket

    from nnet3py.cli.process.compute_setup import has_gpu_files
    from nnet3py.ops import cuda as ops_cuda

    log.log(f"\n\n### IS CUDA GPU AVAILABLE? '{socket.gethostname()}' ###")
    if not has_gpu_files():
        print_error_text("### CUDA WAS NOT COMPILED IN! ###\nThis machine has no NVIDIA GPU that the process can see; "
                         "everything is computed on the CPU.\n")
        return NO_SUPPORT
    unusable = ops_cuda.why_not_usable()
    if unusable:
        print_error_text(f"### CUDA WAS NOT COMPILED IN! ###\n{unusable}; everything is computed on the CPU.\n")
        return NO_SUPPORT
    try:
        error = _largest_error()
    except Exception as cause:       # drivers and compilers fail in many ways
        print_error_text("### WE DID NOT GET A CUDA GPU!!! ###\n### 'nvidia-smi' shows the status of GPUs, "
                         "'numba -s' what is installed to compute on them.\n")
        raise DeviceError(f"The GPU cannot be used: {cause}") from cause
    if not error < LARGEST_ERROR:
        raise DeviceError(f"a matrix product on the GPU is off by {error:g}")
    print_error_text("### HURRAY, WE GOT A CUDA GPU FOR COMPUTATION!!! ##\n### Test OK!\n")
    return 0


def _largest_error() -> float:
    """How far a product of two matrices on the GPU is from numpy's."""
    import numpy as np

    from nnet3py.ops import get_ops

    ops, size = get_ops("cuda"), 100
    a = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    matrix, product = (ops.new_vector(size * size).reshape(size, size) for _ in range(2))
    ops.copy_in(matrix, a)
    ops.add_mat_mat(product, matrix, matrix, 1.0, 0.0)
    return float(np.abs(ops.copy_out(product) - a @ a).max())


@kaldi_command("cuda-compiled", group="Start here", help="Tell by the exit status whether there is GPU support.",
               usage="""
Tell, by the exit status alone, whether computing on a GPU is possible: 0 if it is, 1 if not.

Usage:  cuda-compiled

e.g.: if ! cuda-compiled; then echo "computing on the CPU"; fi
""", arguments=(0, 0))
def cuda_compiled(args: list[str], options: Options) -> int:
    """Tell whether there is GPU support."""
    from nnet3py.cli.process.compute_setup import why_no_gpu

    return 0 if why_no_gpu() is None else NO_SUPPORT
