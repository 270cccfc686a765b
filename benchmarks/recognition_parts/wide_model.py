"""A model folder with a network as large as those that people use: another folder's, with a TDNN-F of 20 million.

The TDNN-F has random weights. Its output is added with a weight of nearly zero, so that the words are those of the
folder it is made of, at the cost of a large network.
"""
from __future__ import annotations

import shutil
from pathlib import Path

import nnet3py
from nnet3py.xconfig.expand import expand

STRIDES = (1, 1, 1, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3)      # of the layers of Kaldi's recipe for LibriSpeech
WIDTH, BOTTLENECK, PREFINAL = 1536, 192, 256
SHARE = 1e-4
FRAMES = 1000.0             # that batch normalization seems to have seen


def wide_xconfig(input_dim: int, ivector_dim: int, num_outputs: int) -> str:
    """The layers; ``ivector_dim`` 0: without i-vectors."""
    ivector = [f"input name=ivector dim={ivector_dim}"] if ivector_dim > 0 else []
    spliced = "Append(-2,-1,0,1,2" + (", ReplaceIndex(ivector, t, 0))" if ivector else ")")
    layers = [f"tdnnf-layer name=wide{number} l2-regularize=0.01 dim={WIDTH} bottleneck-dim={BOTTLENECK} "
              f"time-stride={stride}" for number, stride in enumerate(STRIDES, 2)]
    return "\n".join([
        *ivector, f"input name=input dim={input_dim}",
        f"relu-batchnorm-layer name=wide1 input={spliced} dim={WIDTH}", *layers,
        f"linear-component name=wide-l dim={PREFINAL} orthonormal-constraint=-1.0",
        f"prefinal-layer name=wide-prefinal input=wide-l small-dim={PREFINAL} big-dim={WIDTH}",
        f"output-layer name=wide-output dim={num_outputs} include-log-softmax=false", ""])


def make_wide_model(source: Path, folder: Path) -> int:
    """Copy a model folder of vosk's layout and enlarge the network of its copy; returns how many parameters it has."""
    shutil.copytree(source, folder)
    place = folder / "am" / "final.mdl"
    model = nnet3py.read_model(str(place))
    nnet = model.nnet
    own = next(line for line in nnet.config_lines() if line.startswith("output-node name=output "))
    values = dict(word.split("=", 1) for word in own.split()[1:])
    final = expand(wide_xconfig(nnet.input_dim("input"), nnet.input_dim("ivector"), nnet.output_dim("output"))
                   ).final
    lines = [line for line in final.splitlines() if not line.startswith(("input-node", "output-node"))]
    nnet.read_config("\n".join([*lines, f"output-node name=output objective={values.get('objective', 'linear')} "
                                f"input=Sum({values['input']}, Scale({SHARE}, wide-output.affine))", ""]))
    for component in nnet.components:
        if hasattr(component, "sumsq") and hasattr(component, "test_mode"):
            component.count[0] = FRAMES
            component.sum = component.sum * 0
            component.sumsq = component.sum + FRAMES
    model.write(str(place))
    return sum(array.size for component in nnet.components for array in component.parameters().values())
