"""Commands that recognize speech with a model folder: files, a microphone, a server; alignment, speakers, fine-tuning.

``transcribe.py``, ``serve.py`` (with ``listen``), ``align.py`` (with ``diarize``) and ``fine_tune.py`` read options and
print results. Important names: in ``recognizers.py`` the options ``MODEL`` and ``warmed_recognizer(model, options,
device)``; in ``processes.py`` ``in_processes``, forked workers for files, and ``Supervisor``, serving processes.

Recognition itself is in ``nnet3py.recognition``, which is imported inside the commands, like numpy. A pool of
``concurrent.futures`` does not share the loaded model between processes, and does not replace a killed worker.
"""
