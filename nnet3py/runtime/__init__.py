"""The runtime: binds computations to a device and runs them; cuts utterances and streams into chunks.

Names to know: ``Computer`` (``computer.py``), ``UtteranceComputer`` (``compute.py``), ``LoopedComputer``
(``looped.py``). Nothing here imports training, decoding or commands. numpy runs operations one by one, and allocates
each result; PyTorch and ONNX Runtime would need extra kernels for Kaldi's components, and have no natural gradient.

``binding.py`` places the matrices of a computation in one arena by lifetime, and turns each command into one prepared
call (``calls.py``). A stage is the calls from given inputs to their outputs; ``stage_runners.py`` runs it (recorded
on the CPU, as CUDA graphs on a GPU), with BLAS on one thread meanwhile (``blas_threads.py``). The last stage of a
looped computation continues with the stage that its jump leads to (``Stage.next_stage``).

``parameter_store.py``: components hold numpy arrays; as long as something is bound to a device, a network has a
``ParameterStore`` there (``on_device(nnet, ops)``), and a new one after structural edits. All ``PARAMETERS`` (float32)
are side by side in one vector, all ``STATISTICS`` (float64) in another. Arrays are not watched: ``push()`` copies the
host's to the device, ``pull()`` the device's to the host's, in place. A ``Computer`` with networks on the host pushes
them before each pass and pulls updated ones after each run; ``ComputerCache``, which computes many minibatches of one
network, pushes once, when it is bound; a trainer holds the stores of model and change, and pulls at the end
(``log_totals``) or on request (``synchronize()``). Reading and writing a model always goes through the host.

``looped.py``: ``LoopedComputer(nnet, frames_per_chunk=20, …)`` compiles once; ``stream()`` returns a ``LoopedStream``.
Chunks of several streams are computed as one (``compute_chunks``, which any thread may call): ``chunk_batch.py`` copies
the state of each stream to where a computation for N streams expects it, and back. ``cutting.py``: options,
``NetworkIo`` (checks of features and i-vectors, scaling of outputs), and a ``Cutter`` for each of Kaldi's ways of
cutting utterances; where the output is not affected (``network/locality.py``), chunks are longer and have few lengths.
``batch.py``: ``MinibatchComputer.compute_all(utterances)`` yields outputs in order, with chunks of one ``Shape`` in one
minibatch. ``xvectors.py``: one vector for each utterance.
"""
