r"""Streams, files and tables, and Kaldi's tokens and numbers; ``formats`` has the types of tables' values.

Most used are ``open_input`` and ``open_output`` (``streams.py``: files, pipes, ``-`` and offsets; an output file
appears
when complete), ``TokenReader`` and ``TokenWriter`` (``tokens.py``: the two ends of every Kaldi object file) and
``SequentialReader`` and ``TableWriter`` (``tables.py``). ``object_files.py`` reads and writes single objects,
``random_access.py`` looks values up by key, ``holder.py`` has holders, which say how values are read and written, and
``specifiers.py`` the names of files and tables. ``skim.py`` finds where binary values end without reading them.

The room must not import types of values (``formats``) or anything above. kaldi-io reads plain tables only, without
ranges, checks or clean errors; ``formats/kaldi_io_adapter.py`` uses it where it suffices.
"""
