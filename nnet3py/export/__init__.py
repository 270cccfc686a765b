"""Export of networks as ONNX files and torch modules, and import of their weights and of other programs' ONNX graphs.

The three most important names: ``Graph`` (``operations.py``), the list of operations that a network becomes; ``Walk``
(``walk.py``), which makes it; ``ExportOptions`` (``export_options.py``). ``times.py`` finds the times at which nodes
are needed; ``descriptors.py``, ``layers.py`` and ``walk.py`` translate descriptors, components and recurrences. Writers
are ``onnx_graph.py`` and ``torch_source.py``. Import from ONNX is ``from_onnx.py``; for graphs of other programs
``onnx_import.py``, with rules by operator in ``onnx_rules.py`` and ``onnx_rules_over_time.py``.

The package must not import ``cli/``, ``training/`` or ``recognition/``; onnx, onnxruntime and torch are imported late.
No library reads nnet3 networks except Kaldi itself; Kaldi has no export to ONNX. ``torch.onnx`` exports torch modules
only, and its graphs would have neither Kaldi's edges nor states for streams.
"""
