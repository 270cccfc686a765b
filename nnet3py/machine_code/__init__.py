"""Machine code: made by numba, kept on disk, and loaded from there by llvmlite alone.

numba takes 0.3 s and 100 MB to start, and is needed only where something is compiled for the first time. ``making``
compiles a function together with an entry, through which Python calls it; ``objects`` keeps what comes of that on disk
and loads it; ``entries`` makes a Python function of an entry.
"""
