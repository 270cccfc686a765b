"""From sound to words as it arrives: features, i-vectors, network, search, endpoints.

A stream, from the sound on: ``feature_stream.py`` (``FeatureStream``: samples in, frames out), ``ivector_stream.py``
(``IvectorStream``: frames in, i-vectors out, with a speaker's state), both in ``pipeline.py`` (``PipelineModels``,
which all streams share; ``FeaturePipeline(models, state)``, one for each stream; ``SpeakerState``, what a stream leaves
to the next), and ``stream_decoder.py`` (``StreamDecoder(pipeline, looped, graph, transition_model, …)``:
``accept_waveform(samples, rate)``, ``finish()``, ``best_path()``, ``endpoint_detected()``, ``begin_segment()``,
``finalize()``, ``lattice()``). Samples are float32 of the range of 16 bits. The network can be taken out of it:
``pending_chunk() -> Chunk(frames, ivector) | None`` and ``accept_output(rows)``, so that chunks of many streams may be
computed together.

``silence_weighting.py``: what frames count for i-vectors, by what was recognized in them. ``endpoint.py``: rules of
when an utterance is over. ``stream_options.py`` has the options of both.
Nothing grows with the length of a stream but the search, which begins again with each segment; the only thing that
Python does for each frame is to take it from the library that computes it.

A model: ``model_folder.py`` says what a folder holds and lacks, ``option_tables.py`` (and ``nnet3py/option_file.py``)
what its options say: they are declared once, for commands as well (``nnet3py/option_fields.py``).
``pipeline_files.py`` reads what makes features and i-vectors. ``recognizer.py`` has ``Recognizer(path)``, whose
``stream()`` is a ``Stream`` of ``stream.py``, in blocks of any size and form, and whose ``transcribe()`` takes what
``sound.py`` reads. ``results.py``: ``Result`` with words, times, confidences, alternatives and the lattice.
``scheduler.py``: ``BatchScheduler``, threads that decode many such streams. What streams in several threads, whoever's,
need of the network at the same moment is computed together (``LoopedComputer.compute_chunks``).
Files of sound: ``transcribing.py`` makes a ``Transcript`` (``transcript.py``) of one, and keeps what is done of a long
one by ``stream_state.py``; ``batch.py`` has many of them transcribed, and appends results to a file.
Whole utterances: ``aligning.py``, where a known text is in a sound, and ``decode_arrays.py``, words of log-likelihoods
or features.

The server: ``server.py`` accepts connections, ``server_session.py`` has the conversation with one client in the words
of ``server_protocol.py`` (vosk-server's), ``server_options.py`` says how it serves and ``server_limits.py`` how much a
client may ask, ``served_models.py`` has the models by name and reads them again, ``server_metrics.py`` counts,
``server_board.py`` shows the processes of a server what each of them has counted,
``server_http.py`` answers plain HTTP and gives the page ``server_page.html``. Streams are decoded behind the interface
``stream_threads.StreamService``, by the scheduler, so that nobody waits for someone else's sound.
"""
