"""What every process, thread and notebook of the tests computes, and must find the same."""
from __future__ import annotations

import numpy as np
from runtime_cases import TDNN

import nnet3py
from nnet3py.network.nnet import Nnet


def feats_of(number: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal((30 + number, 3), dtype=np.float32)


def compute_one(number: int) -> np.ndarray:
    """The output for some features of a network with parameters of its own."""
    nnet = Nnet.from_config(TDNN)
    rng = np.random.default_rng(7)
    for component in nnet.components:
        if getattr(component, "linear_params", None) is not None:
            component.linear_params[:] = rng.standard_normal(component.linear_params.shape)
    return np.asarray(nnet3py.compute(nnet, feats_of(number)))
