"""Layer types of xconfig: each makes a network that can be initialized, that has a context, that compiles and runs."""
from __future__ import annotations

import numpy as np
import pytest
from compiler_cases import product, request
from runtime_cases import ROUNDING, assert_close, computer_for, matrices_for
from xconfig_layers import CASES, INPUT_DIM, LAYERS, xconfig

from nnet3py.compiler.build_graph import compute_simple_nnet_context
from nnet3py.network.nnet import Nnet
from nnet3py.xconfig import LAYER_MODULES, Expansion, expand, layer_class

FRAMES = 6

pytestmark = pytest.mark.usefixtures("here")


def made(text: str) -> tuple[Expansion, Nnet]:
    """An xconfig and the network of its ref.config."""
    expansion = expand(text)
    for path, content in expansion.files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
    return expansion, Nnet.from_config(expansion.ref)


def outputs(nnet: Nnet, features: np.ndarray | None = None) -> np.ndarray:
    """The network's output for some frames, given its context and a period more."""
    (left, right), period = compute_simple_nnet_context(nnet), nnet.modulus()
    asked = request(product([0], range(-left - period, FRAMES + right + period)), product([0], range(FRAMES)))
    computer = computer_for(nnet, asked)
    computer.accept_input("input", matrices_for(nnet, asked)["input"] if features is None else features)
    computer.run()
    return computer.output("output")


def test_there_is_an_example_of_every_type():
    assert set(LAYERS) == set(LAYER_MODULES)


@pytest.mark.parametrize(("type", "options"), CASES, ids=[f"{type}-{i}" for i, (type, _) in enumerate(CASES)])
def test_a_layer_becomes_a_network_that_runs(type, options):
    expansion, nnet = made(xconfig(type, options))
    layer = expansion.layers[0 if type == "input" else 2]
    y = outputs(nnet)
    assert layer.type == type
    assert y.shape == (FRAMES, layer.output_dim())
    assert np.isfinite(y).all()
    if expansion.init is not None:
        assert Nnet.from_config(expansion.init).output_dim("output") > 0


@pytest.mark.parametrize("type", [type for type in LAYERS if layer_class(type).AUXILIARY])
def test_every_auxiliary_output_is_a_node_of_its_dimension(type):
    text = xconfig(type, LAYERS[type][0])
    layer = expand(text).layers[2]
    for part in layer.parts:
        _, nnet = made(f"{text}\noutput name=other input={layer.name}.{part}")
        node, dim = layer.auxiliary(part)
        assert nnet.node_dim(nnet.node_index(node)) == dim == nnet.output_dim("other")


def test_auxiliary_outputs_are_those_that_kaldi_names():
    found = {type: layer_class(type).AUXILIARY for type in LAYERS if layer_class(type).AUXILIARY}
    assert found == {"output-layer": ("affine", "log-softmax"), **dict.fromkeys(
        ["lstm-layer", "lstmp-layer", "lstmp-batchnorm-layer", "fast-lstmp-layer", "fast-lstmp-batchnorm-layer",
         "fast-pgru-layer", "fast-norm-pgru-layer", "fast-opgru-layer", "fast-norm-opgru-layer"], ("c_t",)),
        **dict.fromkeys(["pgru-layer", "norm-pgru-layer", "opgru-layer", "norm-opgru-layer"], ("h_t",))}


# -- layers that compute the same in two ways --------------------------------------------------------------------------


def weights(nnet: Nnet, *parts: str) -> list[np.ndarray]:
    """Matrix and offset side by side of some components of the layer."""
    found = [nnet.component(f"layer.{part}").parameters() for part in parts]
    return [np.column_stack([one["linear_params"], one["bias_params"]]) for one in found]


def set_weights(nnet: Nnet, part: str, both: np.ndarray) -> None:
    target = nnet.component(f"layer.{part}").parameters()
    target["linear_params"][...], target["bias_params"][...] = both[:, :-1], both[:, -1]


def pair(slow: str, fast: str, options: str) -> tuple[Nnet, Nnet]:
    return made(xconfig(slow, options))[1], made(xconfig(fast, options))[1]


@pytest.mark.parametrize("options", ["cell-dim=5", "cell-dim=5 delay=2"])
def test_lstm_and_fast_lstm_compute_the_same(options):
    slow, fast = pair("lstm-layer", "fast-lstm-layer", options)
    set_weights(fast, "W_all", np.vstack(weights(slow, "W_i.xr", "W_f.xr", "W_c.xr", "W_o.xr")))
    peepholes = fast.component("layer.lstm_nonlin").parameters()["params"]
    for row, gate in enumerate("ifo"):
        peepholes[row] = slow.component(f"layer.w_{gate}.c").parameters()["scales"]
    assert_close(outputs(fast), outputs(slow), ROUNDING)


def test_lstmp_and_fast_lstmp_compute_the_same():
    slow, fast = pair("lstmp-layer", "fast-lstmp-layer",
                      "cell-dim=8 recurrent-projection-dim=3 non-recurrent-projection-dim=2 delay=-2")
    set_weights(fast, "W_all", np.vstack(weights(slow, "W_i.xr", "W_f.xr", "W_c.xr", "W_o.xr")))
    set_weights(fast, "W_rp", weights(slow, "W_rp.m")[0])
    peepholes = fast.component("layer.lstm_nonlin").parameters()["params"]
    for row, gate in enumerate("ifo"):
        peepholes[row] = slow.component(f"layer.w_{gate}.c").parameters()["scales"]
    assert_close(outputs(fast), outputs(slow), ROUNDING)


@pytest.mark.parametrize(("slow", "fast"), [("pgru-layer", "fast-pgru-layer"),
                                            ("norm-pgru-layer", "fast-norm-pgru-layer")])
def test_pgru_and_fast_pgru_compute_the_same(slow, fast):
    slow, fast = pair(slow, fast, "cell-dim=8 recurrent-projection-dim=3 non-recurrent-projection-dim=2")
    for gate in "zr":
        set_weights(fast, f"W_{gate}.xs", weights(slow, f"W_z.xs_{gate}")[0])
    proposal = weights(slow, "W_h.UW")[0]
    set_weights(fast, "W_hpart.x", np.column_stack([proposal[:, :INPUT_DIM], proposal[:, -1]]))
    fast.component("layer.gru_nonlin").parameters()["w_h"][...] = proposal[:, INPUT_DIM:-1]
    set_weights(fast, "W_y.c", weights(slow, "W_s.ys")[0])
    assert_close(outputs(fast), outputs(slow), ROUNDING)


@pytest.mark.parametrize(("slow", "fast"), [("opgru-layer", "fast-opgru-layer"),
                                            ("norm-opgru-layer", "fast-norm-opgru-layer")])
def test_opgru_and_fast_opgru_compute_the_same(slow, fast):
    slow, fast = pair(slow, fast, "cell-dim=8 recurrent-projection-dim=3 non-recurrent-projection-dim=2 delay=2")
    for gate in "zo":
        set_weights(fast, f"W_{gate}.xs", weights(slow, f"W_z.xs_{gate}")[0])
    set_weights(fast, "W_hpart.x", weights(slow, "W_h.UW")[0])
    fast.component("layer.gru_nonlin").parameters()["w_h"][...] = \
        slow.component("layer.W_h.UW_elementwise").parameters()["scales"]
    set_weights(fast, "W_y.cdoto", weights(slow, "W_s.ys")[0])
    assert_close(outputs(fast), outputs(slow), ROUNDING)


def test_gru_and_fast_gru_compute_the_same():
    slow, fast = pair("gru-layer", "fast-gru-layer", "cell-dim=5 delay=-2")
    for gate in "zr":
        set_weights(fast, f"W_{gate}.xh", weights(slow, f"W_z.xs_{gate}")[0])
    proposal = weights(slow, "W_h.UW")[0]
    set_weights(fast, "W_hpart.x", np.column_stack([proposal[:, :INPUT_DIM], proposal[:, -1]]))
    fast.component("layer.gru_nonlin").parameters()["w_h"][...] = proposal[:, INPUT_DIM:-1]
    assert_close(outputs(fast), outputs(slow), ROUNDING)


def test_combined_feature_maps():
    expansion, nnet = made(xconfig("combine-feature-maps-layer", "height=2 num-filters1=3 num-filters2=4 "
                                   "num-filters3=5"))
    x = np.arange(INPUT_DIM, dtype=np.float32)[None].repeat(FRAMES + 2, 0)
    images = x[0, :6].reshape(2, 3), x[0, 6:14].reshape(2, 4), x[0, 14:].reshape(2, 5)
    np.testing.assert_array_equal(outputs(nnet, x)[0], np.hstack(images).ravel())


def test_channel_average():
    _, nnet = made(xconfig("channel-average-layer", "dim=6"))
    x = np.random.default_rng(0).standard_normal((FRAMES + 2, INPUT_DIM), dtype=np.float32)
    assert_close(outputs(nnet, x), x[1:-1].reshape(FRAMES, 4, 6).mean(1), ROUNDING)


def test_inverse_cosine_transform_undoes_lifted_cepstra():
    _, nnet = made(xconfig("idct-layer", "affine-transform-file=i.mat"))
    n = np.arange(INPUT_DIM)
    cosine = np.sqrt(2 / INPUT_DIM) * np.cos(np.pi / INPUT_DIM * n[:, None] * (n + 0.5))
    cosine[0] = np.sqrt(1 / INPUT_DIM)
    lifter = 1 + 11 * np.sin(np.pi * n / 22)
    energies = np.random.default_rng(0).standard_normal((FRAMES + 2, INPUT_DIM))
    assert_close(outputs(nnet, np.float32(energies @ cosine.T * lifter)), np.float32(energies[1:-1]), 1e-5)


def test_attention_dims_with_and_without_context():
    first, second = (expand(xconfig("attention-renorm-layer", options)).layers[2]
                     for options in LAYERS["attention-renorm-layer"])
    assert (first.output_dim(), second.output_dim()) == (3 + 4, 3 * 3)
