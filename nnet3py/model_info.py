"""Texts of ``nnet3-info`` and ``nnet3-am-info``. Kaldi: ``Nnet::Info``, ``AmNnetSimple::Info``."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnet3py.network.model_file import AnyModelOrFile, network_or_file

if TYPE_CHECKING:
    from nnet3py.acoustic_model import AcousticModel


def info(nnet: AnyModelOrFile, verbose: int = 0) -> str:
    """Return the text of ``nnet3-info``: contexts (of a simple network), sizes, nodes and components.

    Parameters
    ----------
    nnet : network or acoustic model, or the file of one
    verbose : level of detail; from 2 on, with summaries of singular values of some components

    Returns
    -------
    Lines of ``key: value`` and config lines, with a newline at the end.

    Raises
    ------
    Nnet3Error : a simple network whose output cannot be computed with any context
    """
    nnet = network_or_file(nnet)
    lines = []
    if nnet.is_simple():
        from nnet3py.compiler.build_graph import compute_simple_nnet_context

        left, right = compute_simple_nnet_context(nnet)
        lines += [f"left-context: {left}", f"right-context: {right}"]
    lines += [f"num-parameters: {nnet.num_parameters()}", f"modulus: {nnet.modulus()}"]
    lines += nnet.config_lines(include_dims=True)
    with np.errstate(all="ignore"):    # infinite counts and NaN are printed without a warning
        lines += [f"component name={name} type={component.info(verbose)}"
                  for name, component in zip(nnet.component_names, nnet.components, strict=True)]
    return "".join(f"{line}\n" for line in lines)


def acoustic_model_info(model: AcousticModel, verbose: int = 0) -> str:
    """Return the text of ``nnet3-am-info``: dimensions and priors, then the text for the network."""
    nnet, priors = model.nnet, model.priors
    lines = [f"input-dim: {nnet.input_dim('input')}", f"ivector-dim: {nnet.input_dim('ivector')}",
             f"num-pdfs: {nnet.output_dim('output')}", f"prior-dimension: {priors.size}"]
    if priors.size:
        lines += [f"prior-sum: {float(priors.sum(dtype=np.float64)):.6g}", f"prior-min: {float(priors.min()):.6g}",
                  f"prior-max: {float(priors.max()):.6g}"]
    return "".join(f"{line}\n" for line in [*lines, "# Nnet info follows."]) + info(nnet, verbose)
