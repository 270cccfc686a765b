r"""Streams, files and tables, and Kaldi's tokens and numbers; ``formats`` has the types of tables' values.

Most used are ``open_input`` and ``open_output`` (``streams.py``: files, pipes, ``-`` and offsets; an output file
appears when complete), ``TokenReader`` and ``TokenWriter`` (``tokens.py``: for all Kaldi object files) and
``SequentialReader`` and ``TableWriter`` (``tables.py``). ``object_files.py`` reads and writes single objects,
``random_access.py`` looks values up by key, ``holder.py`` has holders, which read and write one type of values, and
``specifiers.py`` parses the names of files and tables. ``skim.py`` finds the ends of binary values without reading
them.

The package must not import types of values (``formats``) or packages that use them. kaldi-io reads plain tables only,
without ranges, checks or clean errors; ``formats/kaldi_io_adapter.py`` uses it where it suffices.
"""
