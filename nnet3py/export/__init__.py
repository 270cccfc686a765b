"""Networks as ONNX files and as torch modules, and weights back from them.

``walk.py`` goes through the network once and makes the plain list of operations of ``operations.py``: where each node
is needed (``times.py``), what descriptors (``descriptors.py``), components (``layers.py``, ``layers_over_time.py``) and
recurrences (``recurrence.py``) become. Writers: ``onnx_graph.py`` and ``torch_source.py``.
``export_options.py`` has the options.
"""
