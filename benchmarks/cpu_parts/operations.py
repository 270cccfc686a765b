"""Useful operations of a benchmark: 2mnk of every matrix product in the optimized command lists.

    python benchmarks/cpu_parts/operations.py train|compute MODEL FILE

prints their number; natural gradient is not counted. FILE holds merged examples, or features that are computed in
chunks of 150 frames, utterance by utterance.
"""
from __future__ import annotations

import sys
from collections import Counter

FRAMES_PER_CHUNK = 150


def of_training(model: str, examples: str) -> int:
    """Operations of one pass over the examples of an rspecifier, forward and backward."""
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.egs.example import read_egs
    from nnet3py.network.model_file import read_nnet
    from nnet3py.report.tables import Costs
    from nnet3py.training.example_computation import example_request

    nnet = read_nnet(model)
    counts = Counter(example_request(nnet, example, need_model_derivative=True, store_component_stats=True)
                     for _, example in read_egs(examples))
    compiler = CachingCompiler(nnet)
    return sum(number * int(Costs.of(compiler.compile(request), nnet).operations.sum())
               for request, number in counts.items())


def of_computing(model: str, features: str) -> int:
    """Operations of nnet3-compute on the features of an rspecifier."""
    from nnet3py.compiler.cache import CachingCompiler
    from nnet3py.formats.holders import read_matrices
    from nnet3py.network.inference import prepare_for_test
    from nnet3py.network.model_file import read_nnet
    from nnet3py.report.requests import natural_request
    from nnet3py.report.tables import Costs

    nnet = prepare_for_test(read_nnet(model))
    lengths: Counter[int] = Counter()
    for _, matrix in read_matrices(features):
        whole, rest = divmod(len(matrix), FRAMES_PER_CHUNK)
        lengths.update({FRAMES_PER_CHUNK: whole, rest: 1})
    compiler = CachingCompiler(nnet)
    return sum(number * int(Costs.of(compiler.compile(natural_request(nnet, frames)), nnet).operations.sum())
               for frames, number in lengths.items() if frames and number)


if __name__ == "__main__":
    print({"train": of_training, "compute": of_computing}[sys.argv[1]](*sys.argv[2:]))
