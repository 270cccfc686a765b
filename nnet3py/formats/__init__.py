"""Values of Kaldi's files and tables: matrices in all forms, vectors, posteriors, index lists, sound, scalars.

Most used are ``read_matrix`` and ``write_matrix`` (``matrices.py``), ``CompressedMatrix`` (``compressed.py``) and the
holders of Kaldi's table types (``holders.py``, with ``read_matrices(rspecifier)`` for programs). ``general.py`` keeps
a matrix in the form in which it is stored; ``layouts.py`` has the table of binary headers of matrices, for all code
that reads, finds, moves or writes them. So a matrix can be copied as bytes (``matrix_bytes.py``), and dense matrices
that are only copied are moved by the operating system from file to file.

The package must not import kernels (``ops/``) nor networks. kaldi-io reads plain dense tables, through
``kaldi_io_adapter.py``; compressed matrices, ranges and streams it cannot read. Compressed matrices are decoded with
numpy unless there are so many that loading compiled code is faster (``compressed_code.py``).
"""
