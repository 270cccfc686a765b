"""nnet3py/compiler/optimize/allocate_from_other.py: freed matrices give their memory to later ones of their size."""
from __future__ import annotations

from compiler_cases import TDNN

from nnet3py.compiler.commands import CommandType as C
from nnet3py.compiler.commands import command
from nnet3py.compiler.computation import Computation
from nnet3py.compiler.optimize.allocate_from_other import allocate_from_other
from nnet3py.network.nnet import Nnet

NNET = Nnet.from_config(TDNN)


def sizing(text: str, sizes: dict[str, tuple]) -> tuple[Computation, list[str]]:
    """A computation of allocations (``+a``) and deallocations (``-a``), and what the pass makes of it."""
    computation, names = Computation(), list(sizes)
    s = {name: computation.new_matrix(*size) for name, size in sizes.items()}
    kinds = {"+": C.ALLOC_MATRIX, "-": C.DEALLOC_MATRIX}
    computation.commands = [command(kinds[word[0]], s[word[1]]) for word in text.split()]
    found = allocate_from_other(computation, NNET)
    signs = {C.ALLOC_MATRIX: "+", C.DEALLOC_MATRIX: "-", C.SWAP_MATRIX: ""}
    texts = [signs[one.type] + "<".join(names[i - 1] for i in one.args[:2] if i > 0) for one in found.commands]
    return computation, texts if found is not computation else []


def test_pairs() -> None:
    sizes = dict.fromkeys("abcd", (3, 2))
    assert sizing("+a -a +b -b", sizes)[1] == ["+a", "b<a", "-b"]
    assert sizing("+a +b -a -b +c +d", sizes)[1] == ["+a", "+b", "c<b", "d<a"]
    assert sizing("+a -a +b -b +c +d", sizes)[1] == ["+a", "b<a", "c<b", "+d"]


def test_other_sizes_and_order() -> None:
    assert sizing("+a -a +b", {"a": (3, 2), "b": (2, 3)})[1] == []
    assert sizing("+a -a +b", {"a": (3, 2), "b": (3, 2, True)})[1] == []       # contiguous rows, or not
    computation, texts = sizing("+a +b -a", {"a": (3, 2), "b": (3, 2)})
    assert texts == [] and allocate_from_other(computation, NNET) is computation
