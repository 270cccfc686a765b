"""Examples: what a network is trained on, their archives, and how they are cut, merged and chosen.

``example.py``: ``NnetIo(name, indexes, features)``, ``NnetExample(io)``; ``splitter.py``, ``merger.py``.
``chain_example.py``: ``read_chain_egs``, ``NnetChainExample(inputs, outputs)`` with a ``Supervision`` each
(``supervision.py``); ``discriminative_example.py`` likewise; ``sequence_merger.py``, ``sequence_select.py`` merge and
change both. ``ExampleMerger`` merges any kind of example with ``structure()`` and ``size()``. ``speaker_ranges.py``,
``image.py``: x-vector examples, images. Cached computations: ``compiler/computation_file.py``, and
``check_loaded(computation, nnet, request)``, which trusts nothing that was read.
"""
