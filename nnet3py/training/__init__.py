"""Training: minibatches, objectives, the trainer and its limits, diagnostics, and averages of models.

The most important names: ``MinibatchTrainer`` (``trainer.py``), the base class of ``NnetTrainer``, ``ChainTrainer`` and
``DiscriminativeTrainer``; ``train`` (``train.py``), whole
trainings from Python on anything that ``training_data.py`` makes minibatches from; and ``Trainer``
(``array_trainer.py``), for training loops that users write. A trainer for a new kind of example defines ``_request``,
``_inputs``, ``_node_rows`` and ``_process_outputs``, which sets derivatives. ``objectives.py`` has the objectives of
outputs, ``loss_function.py`` losses in their place; ``max_change.py`` limits changes; ``diagnostics.py`` measures
networks and averages the last models; ``trainer_state.py`` saves and restores the state of a training.

Imports nothing of ``drivers/`` and ``cli/``. Trainers work through ``runtime/parameter_store.py`` and never ask for the
device. PyTorch's optimizers lack Kaldi's natural gradient and max-change; ``nnet3py.torch`` brings these to it.
"""
