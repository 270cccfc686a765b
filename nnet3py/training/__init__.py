"""Training: minibatches, objectives, the trainer and its limits, diagnostics, and averages of models.

The most important names: ``MinibatchTrainer`` (``trainer.py``), which training on any kind of example shares and of
which ``NnetTrainer``, ``ChainTrainer`` and ``DiscriminativeTrainer`` are the kinds; ``train`` (``train.py``), whole
trainings from Python on anything that ``training_data.py`` makes minibatches from; and ``Trainer``
(``array_trainer.py``), for loops of one's own. A kind of example says what is computed for it (``_request``,
``_inputs``, ``_node_rows``) and sets derivatives (``_process_outputs``). ``objectives.py`` has the objectives of outputs and
losses in their place (``loss_function.py``); ``max_change.py`` limits changes; ``diagnostics.py`` measures networks and
combines the last models; ``trainer_state.py`` has what a training needs to go on.

Imports nothing of ``drivers/`` and ``cli/``. Trainers work through ``runtime/parameter_store.py`` and never ask for the
device. PyTorch's optimizers lack Kaldi's natural gradient and max-change; ``nnet3py.torch`` brings these to it.
"""
