"""The runtime: binds computations to a device and runs them; cuts utterances and streams into chunks.

Names to know: ``Computer`` (``computer.py``), ``UtteranceComputer`` (``compute.py``), ``LoopedComputer``
(``looped.py``). Nothing here imports training, decoding or commands. numpy runs operations one by one, and allocates
each result; PyTorch and ONNX Runtime would need extra kernels for Kaldi's components, and have no natural gradient.

``binding.py`` places the matrices of a computation in one arena by lifetime, and turns each command into one prepared
call (``calls.py``). A stage is the calls from given inputs to their outputs; ``stage_runners.py`` runs it (recorded
on the CPU, as CUDA graphs on a GPU), with BLAS on one thread meanwhile (``blas_threads.py``).

``parameter_store.py`` has a network's arrays on a device. A ``Computer`` with networks on the host copies them to the
device before each pass and back after each run; a ``ComputerCache``, which computes many minibatches of one network,
only when it is bound; a trainer at its end (``log_totals``) or on request (``synchronize()``).

``cutting.py`` cuts utterances in Kaldi's ways or, where the output is not affected, into fewer chunks; ``batch.py``
computes chunks of one shape in one minibatch, ``xvectors.py`` one vector for each utterance, ``chunk_batch.py`` chunks
of several streams together.
"""
