"""nnet3py/export/torch_network.py: modules are saved, copied and loaded again, also where they were not made."""
from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from export_cases import chain_nnet, random_inputs, read_case
from paths import ROOT

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

from nnet3py.export.torch_module import from_torch, to_torch  # noqa: E402
from nnet3py.export.torch_network import empty_network, network_class  # noqa: E402

# a process that never exported anything
LOAD = """
import sys, torch
module, given, expected = torch.load(sys.argv[1], weights_only=False)
assert torch.equal(module(*given), expected)
assert "nnet3py.export.torch_module" not in sys.modules
assert torch.equal(torch.jit.script(module)(*given), expected)
optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.1)
module.train()(*given).sum().backward()
optimizer.step()
torch.save(module.state_dict(), sys.argv[2])
"""


def module_and_inputs(name: str, **options: Any) -> tuple[Any, list[Any]]:
    nnet = chain_nnet() if name == "chain" else read_case(name)
    return to_torch(nnet, **options), [torch.from_numpy(x) for x in random_inputs(nnet, 20, 2) if x is not None]


# With i-vectors; with a recurrence; with buffers beside the parameters.
@pytest.mark.parametrize("name", ["chain", "nets/net-lstm", "cases/time-height-convolution"])
def test_copies_compute_the_same(name: str) -> None:
    module, given = module_and_inputs(name)
    expected = module(*given)
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    copies = [copy.deepcopy(module), copy.copy(module), torch.load(saved, weights_only=False),
              *(pickle.loads(pickle.dumps(module, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1))]
    for each in copies:
        assert type(each) is type(module) and each.source == module.source and not each.training
        assert torch.equal(each(*given), expected)
    for parameter in copies[0].parameters():
        parameter.data.zero_()
    assert torch.equal(module(*given), expected) and not torch.equal(copies[0](*given), expected)
    copies[0].load_state_dict(module.state_dict())
    assert torch.equal(copies[0](*given), expected)


def test_another_process_loads_and_trains_it(tmp_path: Path) -> None:
    nnet = chain_nnet()
    module, given = module_and_inputs("chain")
    torch.save((module, given, module(*given).detach()), tmp_path / "module.pt")
    subprocess.run([sys.executable, "-W", "ignore", "-c", LOAD, tmp_path / "module.pt", tmp_path / "state.pt"],
                   check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    tuned = from_torch(torch.load(tmp_path / "state.pt"), nnet)
    before, after = (each.component("tdnn1.affine").linear_params for each in (nnet, tuned))    # type: ignore[attr-defined]
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(tuned.component("lda").linear_params,                         # type: ignore[attr-defined]
                                  nnet.component("lda").linear_params)                          # type: ignore[attr-defined]


def test_the_class_is_that_of_its_source() -> None:
    module, given = module_and_inputs("chain")
    again, _ = module_and_inputs("chain")
    other, _ = module_and_inputs("chain", edges="given")
    assert type(again) is type(module) and type(other) is not type(module)
    assert network_class(module.source) is type(module)
    empty = empty_network(module.source)
    empty.__setstate__(module.__dict__)
    assert torch.equal(empty(*given), module(*given))
