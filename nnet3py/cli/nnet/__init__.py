"""Commands that make, describe, edit, compute and convert networks and acoustic models.

``networks.py``: nnet3-init, xconfig-to-configs, nnet3-info, nnet3-copy and others; ``acoustic_model.py``: acoustic
models, transition models, trees; ``compute.py``: nnet3-compute, nnet3-compile; ``export.py``: ONNX, torch and other
formats. ``utterances.py`` is for all commands that compute utterances, also those of other rooms: the groups of options
``SIMPLE`` and ``IVEC``, :func:`model_for_test` and :class:`IvectorSource`. The work is done by nnet3py.network,
nnet3py.runtime and nnet3py.export, which are imported when a command runs.
"""
