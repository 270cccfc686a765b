"""The engine: compiles functions with numba, stores and loads machine code, and shares work among threads.

``README.md`` in this folder describes it step by step. The three most important names: ``jit.kernel`` makes an
operation from a function with loops, ``loop.Loop`` a compiled function of arrays for the rest of the package, and
``threads.set_num_threads`` sets how many threads compute.

- Compiled functions neither allocate memory nor raise exceptions: their machine code then does not call numba's
  runtime, and runs in processes that never import numba (``compiling`` raises an error for other functions).
- Machine code is kept in a folder whose name is a hash of all that it depends on: sources, versions, the processor.
  The sources of every function include all files of the engine.
- Threads share a job in chunks, which never split a sum, or the ``threads.ROWS_OF_A_SUM`` rows of a partial sum:
  results are the same for any number of threads. ``code_files.lock`` is held while code is compiled or loaded, and a
  fork waits for it.
- The engine imports nothing of the package but ``errors``, ``log``, ``system`` and ``trusted_files``. The library that
  could do its work is numba with ``cache=True`` and ``prange``; but a process must import numba, 0.3 s, to load what is
  cached, and numba's threads take longer to share a job than most kernels run (``benchmarks/engine.py`` measures both).
"""
