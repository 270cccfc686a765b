"""Commands on alignments (sequences of transition-ids) and posteriors (weighted ids for each frame).

``align_compiled.py``: forced alignment with graphs of transcripts; ``alignments.py``: ``ali_to_phones`` and other
conversions of alignments; ``posteriors.py``: ``ali_to_post``, ``weight_post`` and other changes of posteriors. Most
commands are one call of ``convert_table`` or ``convert_to_lines`` of ``cli/process/copying.py``.

The calculations are in ``hmm/alignment.py``, ``formats/posteriors.py`` and ``decoding/``, which are imported inside the
commands, like numpy. No library has these programs; they read and write Kaldi's tables.
"""
