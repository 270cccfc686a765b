"""The network of a language model: a small TDNN-LSTM, or one's own."""
from __future__ import annotations

from nnet3py.compiler.context import compute_simple_nnet_context
from nnet3py.components.affine import TrainedAffineMap
from nnet3py.errors import ConfigError, within
from nnet3py.io.streams import read_text
from nnet3py.network.descriptor import Source
from nnet3py.network.nnet import Nnet
from nnet3py.rnnlm.training.options import DEFAULT_DIM, NetworkOptions
from nnet3py.xconfig import expand

_CONFIG_WORDS = ("component", "component-node", "dim-range-node", "input-node", "output-node")


def layers(options: NetworkOptions) -> str:
    """The text that describes the network: the file's, or the layers of a TDNN-LSTM, as Kaldi's recipes have them."""
    if options.network:
        return read_text(options.network)
    dim = options.dim or DEFAULT_DIM
    cells = options.cell_dim or dim
    projection = options.projection_dim or -(-cells // 4)
    l2 = f" l2-regularize={options.l2:g}" if options.l2 else ""
    lines = [f"input dim={dim} name=input",
             "renorm-component name=input-renorm",        # words' vectors are small, for the sake of the output
             f"relu-renorm-layer name=tdnn1 dim={dim} input=Append(0, IfDefined(-1)){l2}"]
    for number in range(1, options.num_lstm_layers + 1):
        lines += [f"fast-lstmp-layer name=lstm{number} cell-dim={cells} recurrent-projection-dim={projection} "
                  f"non-recurrent-projection-dim={projection}{l2}",
                  f"relu-renorm-layer name=tdnn{number + 1} dim={dim} input=Append(0, IfDefined(-{number + 1})){l2}"]
    lines.append(f"output-layer name=output dim={dim} include-log-softmax=false param-stddev=0.01{l2}")
    return "\n".join(lines) + "\n"


def config_of(text: str, path: str | None = None) -> str:
    """The config lines that layers stand for; a text that has config lines already is returned as it is."""
    words = {line.split()[0] for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")}
    if words.intersection(_CONFIG_WORDS):
        return text
    return expand(text, path).final


def make_network(options: NetworkOptions, text: str, seed: int) -> Nnet:
    """The network of a text, with random parameters.

    Raises
    ------
    ConfigError : it cannot be a language model: other inputs or outputs, dimensions that differ, words of the future
    """
    path = options.network or None
    with within(f"--network={path}" if path else "the network"):
        nnet = Nnet.from_config(config_of(text, path), seed, path)
        check_network(nnet)
        if options.dim and nnet.input_dim("input") != options.dim:
            raise ConfigError(f"its input has dimension {nnet.input_dim('input')}, but --embedding-dim={options.dim}",
                              "leave out --embedding-dim")
    return nnet


def check_network(nnet: Nnet) -> None:
    """Raise ConfigError unless a network can stand between the embeddings of words."""
    if not nnet.is_simple() or nnet.input_dim("ivector") > 0:
        raise ConfigError("a language model has one input, 'input', and one output, 'output'; this network has "
                          f"{', '.join(name for name, _ in nnet.named_nodes())}")
    dims = nnet.input_dim("input"), nnet.output_dim("output")
    if dims[0] != dims[1]:
        raise ConfigError(f"expected an input and an output of the same dimension, that of words' embeddings, found "
                          f"{dims[0]} and {dims[1]}")
    left, right = compute_simple_nnet_context(nnet)
    if right or left:
        raise ConfigError(f"the network needs the {left} words before and the {right} after each word, but it has to "
                          "do with none before the first, and cannot see later ones",
                          "write earlier words as IfDefined(-1) in layers, as IfDefined(Offset(input, -1)) in config "
                          "lines")
    if nnet.modulus() != 1:
        raise ConfigError(f"the network computes blocks of {nnet.modulus()} words, but they come one by one")


def let_first_output_be(nnet: Nnet, value: float) -> None:
    """Set the offset of the first output, in place, if the output is that of an affine layer."""
    parts = nnet.descriptor_of(nnet.node_index("output")).descriptor.parts
    if len(parts) == 1 and isinstance(parts[0], Source) and nnet.is_component(parts[0].node):
        component = nnet.component_of(parts[0].node)
        if isinstance(component, TrainedAffineMap):
            component.bias_params[0] = value
