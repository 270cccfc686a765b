"""The component types of nnet3: one class per Kaldi type, found by name through :mod:`nnet3py.components.registry`."""
