"""Networks: nodes, components and the descriptors between them; config lines, model files, and edits.

``Nnet`` (``nnet.py``) is the network; :func:`nnet3py.read_nnet` (``model_file.py``) reads one from a file, and
``Descriptor`` (``descriptor.py``) is the parsed ``input=`` of a node, whose leaves map arrays of indexes (n, t, x) to
rows of other nodes. ``structure.py`` has nodes, checks and orphans, ``nnet_io.py`` config lines and the model format,
``whole_model.py`` operations on all components, ``inference.py`` the form for computing outputs, ``edits.py`` the
directives of ``nnet3-copy --edits``, ``recurrence.py`` dependencies in time.

Every change of nodes or components increases ``Nnet.version``, so that computations compiled before become invalid. The
compiler, the operations and numba are never imported: a network is data. No library reads Kaldi's format.
"""
