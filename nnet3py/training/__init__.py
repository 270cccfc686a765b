"""Training: objectives, the minibatch loop, limits on changes, combination and diagnostics.

``objective.py``, ``trainer.py``, ``max_change.py``, ``averaging.py``, ``diagnostics.py``, ``combination.py``
(averages of the last models), ``progress.py`` (between two models), ``transitions.py`` (transition probabilities and
priors from alignments), ``example_outputs.py`` and ``lda_accumulator.py`` (outputs in training mode, their LDA
statistics). ``trainer.py`` has ``MinibatchTrainer``, what training on any kind of example shares; a kind of example
says what is computed for it (``_request``, ``_inputs``, ``_parts``) and sets derivatives (``_process_outputs``). Chain
training: ``chain/denominator.py`` (``DenominatorComputation(ops, graph, leaky).compute(output, num_sequences, deriv,
scale)``) and ``chain/numerator.py`` are put together in ``chain_objective.py``; ``chain_outputs.py`` computes all
outputs of an example with it, for ``chain_trainer.py`` and ``chain_diagnostics.py``. ``combine_nnets`` takes a function
that makes diagnostics, so it serves both kinds of training.

``train.py``: ``train(nnet, data, …)`` from Python, on anything that ``training_data.py`` makes minibatches from: arrays
(``targets.py`` says in which forms), tensors (``tensors.py``), tables, examples, archives. ``gradients.py``:
derivatives of one utterance.

Losses of one's own: ``loss_function.py`` calls one and checks what it returns, ``output_objectives.py`` puts it in the
place of an output's objective, for ``NnetTrainer`` and ``NnetDiagnostics``. Loops of one's own: ``array_trainer.py``
(``Trainer``), with ``array_minibatches.py`` (arrays as inputs, context included) and ``trainer_state.py``.
"""
