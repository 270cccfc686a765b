"""nnet3py/runtime/computer_cache.py: one computer per request, the most recently used kept."""
from __future__ import annotations

import numpy as np
import pytest
from runtime_cases import TDNN, computer_for, forward_request, matrices_for, run_both, training_request

from nnet3py.compiler.cache import CachingCompiler
from nnet3py.errors import Nnet3Error
from nnet3py.network.edits import apply_edits
from nnet3py.network.nnet import Nnet
from nnet3py.runtime.computer_cache import ComputerCache


def cache_of(nnet: Nnet, capacity: int = 64, update: Nnet | None = None) -> ComputerCache:
    return ComputerCache(nnet, CachingCompiler(nnet), update=update, capacity=capacity)


def test_equal_requests_get_the_same_computer_ready_to_start():
    nnet = Nnet.from_config(TDNN)
    cache, request = cache_of(nnet), forward_request()
    given = matrices_for(nnet, request)["input"]
    computer = cache.computer(request)
    computer.accept_input("input", given)
    computer.run()
    first = computer.output("output")
    again = cache.computer(forward_request())
    assert again is computer
    with pytest.raises(Nnet3Error, match="not expected at this point"):
        again.output("output")
    again.accept_input("input", given)
    again.run()
    np.testing.assert_array_equal(again.output("output"), first)


def test_computations_of_all_sizes_share_the_arena():
    nnet = Nnet.from_config(TDNN)
    cache = cache_of(nnet, update=nnet.as_gradient())
    for n in (1, 4, 2, 4, 1):
        request = training_request(n)
        given = matrices_for(nnet, request, seed=n)
        alone = run_both(computer_for(nnet, request, nnet.as_gradient()), given)
        for found, expected in zip(run_both(cache.computer(request), given), alone, strict=True):
            np.testing.assert_array_equal(found, expected)
    sizes = [computer._bound.plan.size for computer in cache._computers.values()]
    assert len(sizes) == 3 and cache.arena.buffer.size == max(sizes)


def test_the_least_recently_used_goes():
    nnet = Nnet.from_config(TDNN)
    cache = cache_of(nnet, capacity=2)
    one, two = cache.computer(forward_request(1)), cache.computer(forward_request(2))
    assert cache.computer(forward_request(1)) is one
    cache.computer(forward_request(3))                       # two goes
    assert cache.computer(forward_request(1)) is one
    assert cache.computer(forward_request(2)) is not two


def test_a_structural_edit_is_not_overlooked():
    nnet = Nnet.from_config(TDNN)
    cache = cache_of(nnet)
    cache.computer(forward_request())
    apply_edits(nnet, "rename-node old-name=a new-name=b2")
    with pytest.raises(Nnet3Error, match="was edited after"):
        cache.computer(forward_request())
