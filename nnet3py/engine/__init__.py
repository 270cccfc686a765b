"""The engine: how functions are compiled, kept on disk, loaded, shared by threads, and how matrices are multiplied.

``README.md`` in this folder tells the story in order. What others rely on:

- ``jit.kernel`` makes an operation from a plain function with loops, ``loop.Loop`` a compiled function of arrays for
  the rest of the package. Neither may allocate or raise: their machine code then refers to nothing of numba's, and
  runs in processes in which numba was never imported (``compiling`` refuses what does).
- Whatever machine code depends on decides the folder that it is kept in: sources, versions, the processor. All of this
  folder counts for every function.
- A job's chunks never split a sum, and tiles never cross ``partition.ROWS_OF_A_SUM``: results are the same for any
  number of threads.
- Whoever makes or loads code holds ``code_files.lock``, for which a fork waits.
"""
