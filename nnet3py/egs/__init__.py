"""Examples: what a network is trained on, their archives, and how they are cut, merged and chosen.

The most important names: ``NnetExample`` (``example.py``), ``ExampleMaker`` (``make.py``) and ``ExampleMerger``
(``merger.py``, for any kind of example with ``structure()`` and ``size()``). ``chain_example.py`` has chain examples
and ``Supervision``, ``discriminative_example.py`` those of MMI and sMBR; ``sequence_egs.py`` merges and shifts both.
``changes.py`` changes frame-level examples while they are copied. ``packed_example.py`` merges the bytes
of examples, ``raw_example.py`` moves and shuffles bytes that are not decoded.

Imports no kernels (``ops/``), nothing of ``chain/`` and ``training/``. kaldi_io reads matrices and alignments, but no
examples; no library does, so the formats are ours.
"""
