"""Every command that computes, with --use-gpu=yes against --use-gpu=no: for ``make test-gpu``.

In numba's simulator (``NUMBA_ENABLE_CUDASIM=1 pytest tests/gpu_commands.py``) it runs, too, on the same small networks.
"""
from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import test_cuda_training
from chain_graphs import chain_example, random_graph
from io_samples import read_table
from runtime_cases import TDNN, class_example, plain
from test_chain_trainer import NET, PDFS
from test_cli_chain_training import write_egs, write_fst_file
from test_cli_compute import write
from test_xvectors import WITH_CONTEXT

from nnet3py.cli.main import load
from nnet3py.egs.example import EXAMPLE
from nnet3py.formats.holders import FLOAT_MATRIX, FLOAT_VECTOR
from nnet3py.io.tables import write_table
from nnet3py.network.model_file import read_nnet
from nnet3py.network.nnet import Nnet
from nnet3py.ops import device

TOLERANCE = 1e-3      # relative to values about 1: float32 sums in another order, after some steps
CHAIN = ["--leaky-hmm-coefficient=0.1", "--xent-regularize=0.1"]
COMMANDS = {          # arguments, and the holder of the archive OUT, or None for a network
    "nnet3-compute": (["tdnn.raw", "ark:feats", "ark:OUT"], FLOAT_MATRIX),
    "nnet3-compute-batch": (["--minibatch-size=2", "tdnn.raw", "ark:feats", "ark:OUT"], FLOAT_MATRIX),
    "nnet3-compute-from-egs": (["plain.raw", "ark:egs", "ark:OUT"], FLOAT_MATRIX),
    "nnet3-xvector-compute": (["--min-chunk-size=10", "pool.raw", "ark:feats", "ark:OUT"], FLOAT_VECTOR),
    "nnet3-xvector-compute-batched": (["--chunk-size=15", "--batch-size=2", "pool.raw", "ark:feats", "ark:OUT"],
                                      FLOAT_VECTOR),
    "nnet3-train": (["--momentum=0.5", "--max-param-change=0.2", "plain.raw", "ark:egs", "OUT"], None),
    "nnet3-chain-train": ([*CHAIN, "chain.raw", "den.fst", "ark:cegs", "OUT"], None),
    "nnet3-combine": (["plain.raw", "plain2.raw", "ark:egs", "OUT"], None),
    "nnet3-chain-combine": ([*CHAIN, "den.fst", "chain.raw", "chain2.raw", "ark:cegs", "OUT"], None),
}
REPORTING = {         # commands whose numbers are in their last line
    "nnet3-compute-prob": ["plain.raw", "ark:egs"],
    "nnet3-chain-compute-prob": [*CHAIN, "chain.raw", "den.fst", "ark:cegs"],
}


@pytest.fixture(autouse=True)
def _fewer_threads():
    with test_cuda_training.fewer_threads() if device.is_simulated() else nullcontext():
        yield


@pytest.fixture
def folder(here):
    """The current folder, with networks, features and examples."""
    rng = np.random.default_rng(1)
    for name, text in (("tdnn", TDNN), ("pool", WITH_CONTEXT), ("chain", NET)):
        Nnet.from_config(text, seed=1).write(f"{name}.raw")
    Nnet.from_config(NET, seed=2).write("chain2.raw")
    for name in ("plain", "plain2"):
        plain(objective="linear").write(f"{name}.raw")
    write("feats", {f"u{frames}": rng.standard_normal((frames, 3)).astype(np.float32) for frames in (23, 31)})
    write_table("ark:egs", EXAMPLE, ((f"eg{seed}", class_example(seed=seed)) for seed in range(3)))
    write_fst_file("den.fst", random_graph(rng, 6, PDFS))
    write_egs("cegs", [(f"eg{end_to_end}", chain_example(rng, 2, 4, PDFS, end_to_end=end_to_end))
                       for end_to_end in (False, True)])
    return here


def found(holder, name):
    """What a command wrote, by key."""
    if holder is None:
        nnet = read_nnet(name)
        return {f"{name}.{key}": value for name, component in zip(nnet.component_names, nnet.components, strict=True)
                for key, value in component.parameters().items()}
    return read_table(f"ark:{name}", holder)


@pytest.mark.parametrize("command", COMMANDS)
def test_files(folder, command):
    arguments, holder = COMMANDS[command]
    results = []
    for use_gpu in ("yes", "no"):
        assert load(command).execute([f"--use-gpu={use_gpu}", *(a.replace("OUT", use_gpu) for a in arguments)]) == 0
        results.append(found(holder, use_gpu))
    mine, wanted = results
    assert list(mine) == list(wanted) and wanted
    for key, value in wanted.items():
        np.testing.assert_allclose(mine[key], value, rtol=TOLERANCE, atol=TOLERANCE, err_msg=key)


@pytest.mark.parametrize("command", REPORTING)
def test_numbers(folder, command, capfd):
    numbers = []
    for use_gpu in ("yes", "no"):
        assert load(command).execute([f"--use-gpu={use_gpu}", *REPORTING[command]]) == 0
        captured = capfd.readouterr()
        words = " ".join(line.partition(") ")[2] for line in captured.err.splitlines() if "verall" in line).split()
        numbers.append([float(word.strip(".,")) for word in words if word[:1] in "-0123456789"])
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=TOLERANCE)
    assert numbers[1]
