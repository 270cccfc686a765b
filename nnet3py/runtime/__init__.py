"""Running a command list: memory, bound calls, streams, batches, and cutting utterances into chunks.

``computer.py``: ``Computer(computation, nnet, update=None, device="cpu")`` with ``accept_input(name, matrix)``,
``run()``, ``output(name)``. ``blas_threads.py``: while a stage runs, BLAS has no threads of its own.
``memory_plan.py`` places the matrices in one arena by lifetime; ``binding.py`` turns each
command into one prepared call (a fused one by its ``Fusion.bind``); ``trace.py`` runs them with a log line each. A
looped computation's last stage continues with the stage that its jump leads to (``Stage.next_stage``); its state is
in its arena, which it does not share.

``parameter_store.py``: components hold numpy arrays; for as long as something is bound to a device, a network has a
``ParameterStore`` there. ``on_device(nnet, ops)`` makes it when the network is first bound, and a new one after
structural edits. All ``PARAMETERS`` (float32) are side by side in one vector, all ``STATISTICS`` (float64) in another.
The store's components are copies of the network's, with views of these vectors in place of arrays and
``CONSTANTS`` uploaded; they take the host's settings before each run, and share its objects. Arrays are not watched:
``push()`` copies the host's to the device, ``pull()`` the device's to the host's, in place. A ``Computer`` with
networks on the host pushes them before each pass and pulls what it has updated after each run; ``ComputerCache``,
which computes many minibatches of one network, pushes once, when it is bound; a trainer holds the stores of model and
change, and pulls at the end (``log_totals``) or on request (``synchronize()``). Reading and writing a model always
goes through the host.

``looped.py``: ``LoopedComputer(nnet, frames_per_chunk=20, …)`` compiles once; ``stream()`` gives a ``LoopedStream``
with ``accept(feats, ivector=None)`` and ``finish()``, which return the output that is ready, and ``restart()``;
``compute(feats, …)`` is for a whole utterance. Chunks of several streams are computed as one (``compute_chunks``,
which threads may call at the same time: ``waiting_line.py``): ``chunk_batch.py`` copies what each stream carries, a
row of ``stream_states.py``, to where a computation for N streams expects it, and back. ``frame_buffer.py``: rows that
come and go. ``network_io.py`` checks
features and i-vectors and scales outputs, for all ways of computing utterances. ``cutting.py``: ``ComputeOptions``,
``Utterance``, and a ``Cutter`` for each of Kaldi's ways of cutting into ``Chunk`` objects; where the output is not
affected (see ``network/recurrence.py``), chunks are longer and have few lengths. ``batch.py``:
``MinibatchComputer.compute_all(utterances)`` yields outputs in order, with chunks of one ``Shape`` as one minibatch;
``UtteranceComputer`` (``compute.py``) and ``BatchComputer`` are two of them. ``xvectors.py``: ``XvectorComputer(nnet,
…)``, ``BatchedXvectorComputer(nnet, …)``, one vector per utterance. ``compute.py``: ``compute(model, feats, …)``
remembers, in each thread, what it prepared for the last few networks.
"""
