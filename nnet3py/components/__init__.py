"""The component types of nnet3: one class per Kaldi type, found by name through :mod:`nnet3py.components.registry`.

docs/components.md describes each type. ``base.py`` is the contract. One class per Kaldi type, by family, registered
in ``registry.py`` (name → module, imported on use); other programs register theirs by ``register_component(cls)``. The
executor binds each command once (``new_memo``), then calls ``propagate`` / ``backprop`` / ``store_stats`` with the
``ops`` of the device. A component that works in place gets the same view as ``x`` and ``y`` (or ``dy`` and
``dx``), so it may test ``x is y``; ``store_stats`` then gets None for ``x``. Arrays that outlive a call are declared
in ``PARAMETERS`` and ``STATISTICS``; those that kernels only read (column maps, fixed vectors, batch normalization's
test-mode transform) in ``CONSTANTS``, where a class has any. On a GPU a copy of the component computes, with device
arrays in those attributes (``runtime/parameter_store.py``); it takes over the host's settings before each run, so no
method that runs there may set an attribute. Other objects (natural gradient, a nonlinearity's ``stored``) are the
host's. A component with ``children`` (``composite.py``) has no arrays of its own, and names its children's
``0.linear_params`` in ``parameters()``. Code that visits a network's arrays by attribute descends into ``children``;
max-change, l2, test modes and dropout schedules do not, as in Kaldi. Children's memos live in scratch memory within
the composite's backward call: ``new_memo`` calls only ``new_vector`` of ``ops``.

``natural_gradient.py``: ``OnlineNaturalGradient(rank, update_period, num_samples_history, alpha)`` with
``precondition(ops, x, rate)`` (x overwritten; returns rate γ in a vector of one element, for ``ops.add_mat_by`` and
its kind) and ``frozen``. Layers with a weight matrix call ``layer_gradient.natural_gradient_step``, which
preconditions the gradient instead of copies of inputs and derivatives where that is cheaper: ``observe(ops,
Rows(parts, ones)) -> Projection``, then the step by the old estimate, then ``learn``. A preconditioner's numbers
are never copied to the host: they stay in its ``numbers``, float64, on the device
(``ops/formulas/natural_gradient.py`` lists them). NaN, infinity and numbers that are too large make the factor 0, so
that nothing is added; ``check(ops)`` raises the error. On the CPU ``Computer.run`` asks all preconditioners; on a GPU
the trainer learns one minibatch later how many factors were 0, and then finds which (``check_preconditioners``).
"""
