"""nnet3py/compiler/fuse/places.py: a rectifier's output in the place of the batch norm's."""
from __future__ import annotations

import numpy as np
import pytest
from fuse_cases import LAYER, assert_same, compiled, fusions, results

from nnet3py.compiler.check import check_computation
from nnet3py.components.normalize import BatchNormComponent
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.memory_plan import plan_memory

WITHOUT = "fuse-affine, fuse-backprop"


def test_the_rectifier_needs_no_memory_and_results_stay() -> None:
    found, sizes = [], []
    for fuse in (f"{WITHOUT}, share-places", WITHOUT, "none"):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, fuse)
        check_computation(computation, nnet, thorough=True)
        assert len(computation.places) == (fuse.endswith("places"))
        sizes.append(plan_memory(computation).size)
        found.append(results(nnet, computation, True))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert_same(found[0], found[1])
    assert_same(found[0], found[2])
    assert sizes[0] < sizes[1]


def test_the_listing_says_when_it_exists() -> None:
    nnet = Nnet.from_config(LAYER, 3)
    computation = compiled(nnet, True, "all")
    (matrix, _), = computation.places.items()
    lines = [line for line in computation.describe(nnet).splitlines() if f"m{matrix} = " in line]
    assert [line.split()[1] for line in lines if line.startswith("c")] == ["fuse-affine", "fuse-backprop"]
    assert fusions(computation.unfused()) == [] and not computation.unfused().places


def test_an_output_that_others_read_keeps_its_memory() -> None:
    shared = LAYER.replace("component-node name=last component=last input=norm",
                           "component-node name=last component=last input=Sum(norm, relu)")
    for text, training in ((shared, True), (LAYER, False)):
        assert not compiled(Nnet.from_config(text, 3), training, "all").places


@pytest.mark.parametrize("fuse", ["all", "none"])
def test_a_batch_norm_put_in_test_mode_later(fuse: str) -> None:
    """Then the parts run one by one, and the rectifier still knows what was positive."""
    found = []
    for chosen in (fuse, WITHOUT):
        nnet = Nnet.from_config(LAYER, 3)
        computation = compiled(nnet, True, chosen)
        norm = nnet.components[nnet.component_names.index("norm")]
        assert isinstance(norm, BatchNormComponent)
        norm.set_test_mode(True, np.random.default_rng(1))
        found.append(results(nnet, computation, True))
    assert_same(*found)
