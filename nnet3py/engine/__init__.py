"""Machine code: made by numba, kept on disk, and loaded from there by llvmlite alone.

numba takes 0.3 s and 100 MB to start, and is needed only where something is compiled for the first time. ``compiling``
compiles a function together with an entry, through which Python calls it; ``code_files`` keeps what comes of that on
disk and loads it; ``entries`` makes a Python function of an entry. ``jit`` has the decorator of CPU kernels, whose work
a ``team`` of threads shares; ``tiles`` multiplies matrices in them.
"""
