"""Matrices in all their forms, posteriors, index lists, sound and the other values of Kaldi's files and tables.

``matrices.py``: ``read_matrix(reader)``, ``read_vector(reader)`` -> float32 (``dtype=`` for others; compressed forms
decode), ``write_matrix(writer, a)``, ``write_vector(writer, a)``. ``compressed.py``: ``CompressedMatrix``;
``sparse.py``: ``SparseMatrix``; ``general.py``: ``read_general_matrix(reader)`` -> ndarray | CompressedMatrix |
SparseMatrix, ``write_general_matrix``. Forms share ``shape``, ``take_rows(indexes)``, ``scaled(factor)``,
``to_dense()``; ``general.py`` has the same as functions for any form. ``index_vector.py``, ``cindex_vector.py``: the
codes of index lists. ``posteriors.py``: ``Posterior(row_starts, ids, weights)``. ``holders.py``: one ``Holder`` per
value type of Kaldi's tables. ``matrix_files.py``: ``read_matrices(rspecifier)``, ``read_matrix_file(rxfilename)``.

``layouts.py`` is the one table of how matrices begin in binary: whoever reads, finds, walks over, moves or writes one
asks it. So values can be taken as bytes (``egs/raw_example.py``, ``raw_matrix.py``), as packed examples that are merged
undecoded (``egs/packed_example.py``), or as matrices (``dense_skimmer.py``). Matrices of features are found by their
heads (``matrix_skimmer.py``). Dense ones that are only copied are never read: the system moves whole runs of them from
file to file or pipe (``moving.py``, ``SequentialReader.runs``, ``TableWriter.move``).

Compressed matrices are decoded by numpy until compiled code pays (``expect_decoding``, ``expect_compressing`` in
``compressed_code.py``). That code is loops on addresses (``compressed_loops.py``), compiled once and then loaded
without numba (``engine/loop.py``).
"""
