"""Values of Kaldi's files and tables: matrices in all forms, vectors, posteriors, index lists, sound, scalars.

Most used are ``read_matrix`` and ``write_matrix`` (``matrices.py``), ``CompressedMatrix`` (``compressed.py``) and the
holders of Kaldi's table types (``holders.py``, with ``read_matrices(rspecifier)`` for programs). ``general.py`` keeps a
matrix in whichever form it is stored; ``layouts.py`` is the one table of how matrices begin in binary, for all code
that
reads, finds, moves or writes them. Values can thus be taken as bytes (``matrix_bytes.py``), and dense matrices that are
only copied are moved by the system from file to file.

The room must not import kernels (``ops/``) nor networks. kaldi-io reads plain dense tables, through the one door
``kaldi_io_adapter.py``; compressed matrices, ranges and streams it cannot read. Compressed matrices are decoded by
numpy
until compiled code pays (``compressed_code.py``).
"""
