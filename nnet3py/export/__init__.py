"""Networks as ONNX files and as torch modules, and weights back from them.

``walk.py`` goes through the network once and makes the plain list of operations of ``operations.py``: where each node
is needed (``times.py``), what descriptors (``descriptors.py``), components (``layers.py``, ``layers_over_time.py``) and
recurrences (``recurrence.py``) become. Writers: ``onnx_graph.py`` and ``torch_source.py``.
``export_options.py`` has the options. Back from ONNX: ``from_onnx.py``; for graphs of other programs
``onnx_import.py``, with rules for operators in ``onnx_rules.py``, ``onnx_windows.py`` and ``onnx_recurrences.py``.
"""
