"""The engine: functions compiled by numba, kept on disk, loaded without numba, shared by threads; products by tiles.

``README.md`` in this folder tells the story in order. Its three most important names: ``jit.kernel`` makes an operation
from a plain function with loops, ``loop.Loop`` a compiled function of arrays for the rest of the package, and
``threads.set_num_threads`` sets how many threads compute.

- Compiled functions neither allocate nor raise: their machine code then refers to nothing of numba's, and runs in
  processes in which numba was never imported (``compiling`` refuses others).
- All that machine code depends on decides the folder that it is kept in: sources, versions, the processor. Every file
  of this folder counts for every function.
- A job's chunks never split a sum, or the ``threads.ROWS_OF_A_SUM`` rows of one: results are the same for any number
  of threads. ``code_files.lock`` is held while code is made or loaded, and a fork waits for it.
- Imports nothing of the package but ``errors``, ``log``, ``system`` and ``trusted_files``. The library that could do it
  is numba with ``cache=True`` and ``prange``; it needs itself to load what it has cached, 0.3 s a process, and its pool
  of threads takes longer to share a job than most kernels run (``benchmarks/engine.py`` measures both).
"""
