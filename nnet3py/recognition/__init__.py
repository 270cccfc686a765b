"""Recognition of speech: from sound, as it arrives or in files, to words with times.

The most important names are :class:`~nnet3py.recognition.recognizer.Recognizer`, a model folder
(``model_folder.py``) that any number of streams share; :class:`~nnet3py.recognition.stream.Stream`, which takes blocks
of any size and form; and :class:`~nnet3py.recognition.results.Result`, words with times, confidences and the lattice.
Below a stream are :class:`~nnet3py.recognition.stream_decoder.StreamDecoder` (features, i-vectors, network and search;
Kaldi: SingleUtteranceNnet3Decoder), ``pipeline.py`` (features), ``ivector_stream.py`` and ``silence.py`` (ends of
utterances, weights of silence for i-vectors). Files of sound are read by ``sound.py`` and transcribed, resumably, by
``transcribing.py`` and ``batch.py``; ``transcripts.py`` writes results. Whole utterances: ``aligning.py``,
``decode_arrays.py``, ``front_end.py``, ``diarization.py``. The server is in ``server/``.
Samples are float32 of the range of 16 bits. Nothing but the search grows with the length of a stream, and the search
begins again with each segment. Modules here must not import ``vosk/`` and ``cli/``, which build on them. vosk-api and
sherpa-onnx do the same in C++, but vosk-api needs Kaldi, and sherpa-onnx does not read Kaldi's model folders.
"""
