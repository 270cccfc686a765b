"""Commands about the installation and the machine, and the files that are made from the declarations of commands.

``installation.py``: extras, docs, bin-path, the GPU, tune, resident. ``warmup.py``: compiling all kernels; its tables
``LOOPS`` and ``ENGINE`` name the modules with compiled loops. ``bin_files.py``: :func:`declarations` reads all
declarations of commands, for the table, launchers and entry points that ``make launchers`` writes; setup.py uses it,
so it imports nothing but Python's own library. No library does this: launchers are of two lines of sh, since an entry
point of setuptools starts a Python of its environment only.
"""
