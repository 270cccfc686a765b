"""How the time to read and compile a network grows with its nodes: no worse than n log n.

usage: python benchmarks/large_networks.py [--kind=chain] [NODES...]
"""
from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator

import click
import numpy as np

import nnet3py
from nnet3py.compiler.cache import CachingCompiler
from nnet3py.network.inference import prepare_for_test

NODES = (3750, 7500, 15000, 30000)
COMPONENT = "component name={} type=AffineComponent input-dim={} output-dim=4"
TANH = "component name=t type=TanhComponent dim=4"       # between affine layers, which would be merged


def chain(layers: int) -> Iterator[str]:
    """One layer after the other, all with the same two components."""
    yield from (TANH, COMPONENT.format("a", 4))
    for i in range(layers):
        yield f"component-node name=n{i} component={'t' if i % 2 else 'a'} input={f'n{i - 1}' if i else 'input'}"


def layers(layers: int) -> Iterator[str]:
    """Layers with components of their own, of which every fiftieth adds another frame."""
    yield TANH
    for i in range(layers):
        source = f"n{i - 1}" if i else "input"
        yield COMPONENT.format(f"a{i}", 4)
        yield (f"component-node name=n{i} component={'t' if i % 2 else f'a{i}'} "
               f"input={f'Sum({source}, IfDefined(Offset({source}, -1)))' if i % 50 == 0 else source}")


def ring(layers: int) -> Iterator[str]:
    """A recurrence that goes through all layers."""
    yield from (TANH, COMPONENT.format("a", 8), COMPONENT.format("b", 4))
    for i in range(layers):
        source = f"n{i - 1}" if i else f"Append(input, IfDefined(Offset(n{layers - 1}, -1)))"
        yield f"component-node name=n{i} component={('t' if i % 2 else 'b') if i else 'a'} input={source}"


def branches(layers: int) -> Iterator[str]:
    """Layers that read the one before and a random one."""
    rng = np.random.default_rng(0)
    yield COMPONENT.format("a", 8)
    for i in range(layers):
        other = f"n{rng.integers(i)}" if i else "input"
        yield f"component-node name=n{i} component=a input=Append({f'n{i - 1}' if i else 'input'}, {other})"


KINDS: dict[str, Callable[[int], Iterator[str]]] = {
    "chain": chain, "layers": layers, "ring": ring, "branches": branches}


def config(kind: str, nodes: int) -> str:
    """A network of so many nodes; a layer is two, its component's and its input's."""
    count = nodes // 2 - 1
    return "\n".join(["input-node name=input dim=4", *KINDS[kind](count),
                      f"output-node name=output input=n{count - 1}"])


def seconds(kind: str, nodes: int, folder: str) -> dict[str, float]:
    """Processor time of each step, from a config to a computation with a backward pass, and back from a file."""
    text, path = config(kind, nodes), f"{folder}/net.raw"
    rows = [(0, t, 0) for t in range(3)]
    request = nnet3py.ComputationRequest([nnet3py.IoSpecification("input", rows)],
                                         [nnet3py.IoSpecification("output", rows, has_deriv=True)], True)
    found: dict[str, float] = {}

    def timed(what: str, call: Callable[[], nnet3py.Nnet]) -> nnet3py.Nnet:
        start = time.process_time()
        result = call()
        found[what] = time.process_time() - start
        return result

    nnet = timed("config", lambda: nnet3py.Nnet.from_config(text))
    timed("write", lambda: nnet.write(path))
    nnet = timed("read", lambda: nnet3py.read_nnet(path))
    timed("compile", lambda: CachingCompiler(nnet).compile(request))
    timed("prepare", lambda: prepare_for_test(nnet.copy()))
    return found


def growth(first: dict[str, float], last: dict[str, float], ratio: float, nodes: int) -> dict[str, float]:
    """Of each step: by what factor its time grew, as a part of what n log n would make of it."""
    allowed = ratio * math.log(nodes) / math.log(nodes / ratio)
    return {what: last[what] / max(first[what], 1e-3) / allowed for what in last}


@click.command()
@click.option("--kind", type=click.Choice(sorted(KINDS)), multiple=True, help="Kinds of networks (default: all).")
@click.argument("nodes", type=int, nargs=-1)
def main(kind: tuple[str, ...], nodes: tuple[int, ...]) -> None:
    """Print the time of each step for networks of more and more nodes, and how it grew beside n log n."""
    sizes = sorted(nodes or NODES)
    with tempfile.TemporaryDirectory() as folder:
        for name in kind or KINDS:
            found = {}
            for size in sizes:
                found[size] = seconds(name, size, folder)
                times = "".join(f"  {what} {one:7.2f} s" for what, one in found[size].items())
                print(f"{name:10}{size:7} nodes{times}", flush=True)
            for small, large in zip(sizes[:-1], sizes[1:], strict=True):
                grown = growth(found[small], found[large], large / small, large)
                print(f"{name:10}{small:7} to {large}, beside n log n:" + "".join(
                    f"  {what} {one:.2f}" for what, one in grown.items()))


if __name__ == "__main__":
    main()
