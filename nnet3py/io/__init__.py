r"""Streams, files and tables, and Kaldi's tokens and numbers; ``formats`` has the types of tables' values.

``tokens.py``: ``TokenReader(stream, path="", size=None)`` and ``TokenWriter(stream, binary)`` are the two ends of
every Kaldi object file::

    reader.read_header() -> bool          # optional \0B; sets reader.binary
    reader.token() -> str                 reader.expect("<Dim>")           reader.expect_one_or_two("<T>", "<Dim>")
    reader.peek_token() -> str            # the letter after '<', nothing consumed ('/' for a closing tag)
    reader.integer() -> int               # int32; integer("int64"), integer("uint64") … for others
    reader.real() -> float                reader.boolean() -> bool         # real: float and double alike
    reader.integer_vector() -> int32 array                                 reader.integer_pairs() -> int32 (count, 2)
    reader.offset, reader.path, reader.component (named in errors), reader.error(message, …) -> FormatError
    reader.check_token(found, "<A>", "<B>")                                 # of the token read last
    reader.unexpected(found, "what is expected") -> FormatError             # names the place where that token begins
    writer.token("<Dim>")  writer.integer(3)  writer.float32(x)  writer.float64(x)  writer.boolean(b)
    writer.integer_vector(a)  writer.integer_pairs(a)  writer.newline_if_text()  writer.raw(bytes)
    reader.integers(count) / writer.integers(a)      # int32 with a size byte each
    reader.raw(n) -> bytes, array(dtype, count), skip(n), peek(n), at_end(), skip_whitespace(), read_line(),
    take_while(regex), check_count(count, bytes_each)                       # what the file cannot hold is refused
    reader.start_capture(), end_capture() -> bytes                          # what was consumed, for undecoded copies

A reader takes nothing from a buffered stream that it has not consumed, so the stream's owner may read on after a
value.

``streams.py``: ``open_input(rxfilename)``, ``open_output(wxfilename)`` — context managers around files, pipes, ``-``,
offsets; an output file is written under a temporary name and renamed when complete, and is removed if an exception
passes. ``write_text(wxfilename, text)``. ``temporary_files.py``: no process leaves unfinished files for long. No two
outputs share a name. ``object_files.py``: ``read_object(rxfilename, read)``, ``write_object(wxfilename, write,
binary)``.

``tables.py``: ``SequentialReader(rspecifier, holder)``, ``RandomAccessReader(rspecifier, holder)``,
``RandomAccessMappedReader(rspecifier, utt2spk, holder)``, ``TableWriter(wspecifier, holder)``; all are context
managers. A ``Holder(name, read(reader), write(writer, value), …)`` (``holder.py``) says what the values are.

``skim.py``: ``Skimmer(walk)`` finds where binary values end in blocks of an archive, by walking over what says how
much follows; values that are laid out alike are then found by a regular expression. A holder with a ``skimmer`` gets
values this way. What is unusual is read token by token, so that errors are those of reading. ``bytes`` that are written
to a table go out as they are. ``read_ahead.py``: ``read_ahead(items, most, most_bytes, size)``, ``map_ahead(function,
items, num_threads)``.
"""
