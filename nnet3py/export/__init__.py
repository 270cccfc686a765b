"""Networks as ONNX files and as torch modules, and their weights back.

``walk.py`` goes through the network once and makes the plain list of operations of ``operations.py``: where each node
is needed (``times.py``), what descriptors (``descriptors.py``), components (``layers.py``, ``layers_over_time.py``) and
recurrences (``recurrence.py``) come to. Writers: ``onnx_graph.py`` and ``torch_source.py``.
``export_options.py`` says what can be asked for.
"""
