"""Component types of nnet3: a class per Kaldi type, by family, found by name through ``registry.py``.

``Component`` (``base.py``) is the contract with files, compiler, executor and trainer, ``UpdatableComponent``
(``updatable.py``) adds what trained types have, ``OnlineNaturalGradient`` (``natural_gradient.py``) preconditions their
gradients. docs/components.md describes each type. Components never import ``ops`` or numba: the executor binds each
command once (``new_memo``), then calls ``propagate``, ``backprop`` and ``store_stats`` with the ``ops`` of its device.

- A component that works in place gets ``x is y`` (or ``dy is dx``), and ``store_stats`` gets None for ``x``.
- On a GPU a copy of the component computes, with device arrays in the attributes of ``PARAMETERS``, ``STATISTICS`` and
  ``CONSTANTS`` (``runtime/parameter_store.py``). The host's settings are copied to it before each run: methods that run
  there must not set attributes.
- A component with ``children`` (``composite.py``) has no arrays of its own. Code that visits arrays by attribute
  descends into children; max-change, l2, test modes and dropout schedules do not, as in Kaldi.
- A preconditioner's numbers stay on the device. NaN, infinity and too large numbers make its factor 0, so that nothing
  is added, and ``check`` raises the error: after each run on the CPU, a minibatch later on a GPU.

PyTorch and others have such layers, but not Kaldi's files, formulas of statistics, self-repair or natural gradient.
"""
