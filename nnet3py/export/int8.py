"""Products of an ONNX file with weights of 8 bits, in the standard operators of opset 13.

Jacob, Kligys, Chen, Zhu, Tang, Howard, Adam and Kalenichenko, "Quantization and training of neural networks for
efficient integer-arithmetic-only inference", CVPR 2018.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from nnet3py.export.onnx_graph import import_onnx

INTEGERS, WEIGHTS, FLOAT = "integers", "weights", "float"
_LARGEST = {INTEGERS: 63, WEIGHTS: 127}     # AVX2 adds two products of 8 bits in 16: with 7 bits that cannot overflow
_MUCH_BETTER = 0.7


class Product(NamedTuple):
    """A product with constant weights, (rows, columns); ``reads_input``: there is no other between it and the input."""

    name: str
    shape: tuple[int, int]
    reads_input: bool


def products_of(model: Any) -> list[Product]:
    """The products of an ONNX model with constant weights, outside of loops, in order."""
    weights = {each.name: each for each in model.graph.initializer}
    products: list[Product] = []
    later: set[str] = set()
    for node in model.graph.node:
        is_product = _is_product(node, weights)
        if is_product:
            rows, columns = weights[node.input[1]].dims
            products.append(Product(node.name, (rows, columns), node.input[0] not in later))
        if is_product or later.intersection((*node.input, *_read_inside(node))):
            later.update(node.output)
    return products


def _is_product(node: Any, weights: Mapping[str, Any]) -> bool:
    return bool(node.op_type == "MatMul" and node.input[1] in weights and len(weights[node.input[1]].dims) == 2)


def steps(alone: Mapping[str, tuple[float, float]]) -> list[dict[str, str]]:
    """Forms of products, from all in integers to all in float: each time, the one that costs most is given more.

    ``alone`` says what each product costs alone, as integers and with weights of 8 bits.
    """
    costs = {name: {INTEGERS: integers, WEIGHTS: weights, FLOAT: 0.0} for name, (integers, weights) in alone.items()}
    forms = dict.fromkeys(alone, INTEGERS)
    sequence = [dict(forms)]
    while any(form != FLOAT for form in forms.values()):
        left = [name for name, form in forms.items() if form != FLOAT]
        worst = max(left, key=lambda name: costs[name][forms[name]] if math.isfinite(costs[name][forms[name]]) else
                    math.inf)
        pays = forms[worst] == INTEGERS and costs[worst][WEIGHTS] < _MUCH_BETTER * costs[worst][INTEGERS]
        forms[worst] = WEIGHTS if pays else FLOAT
        sequence.append(dict(forms))
    return sequence


def with_forms(model: Any, forms: Mapping[str, str]) -> Any:
    """A copy of an ONNX model in which products have the forms that are named; others stay as they are."""
    onnx = import_onnx()
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    weights = {each.name: each for each in graph.initializer}
    nodes: list[Any] = []
    rounded: set[str] = set()
    for node in graph.node:
        form = forms.get(node.name, FLOAT) if _is_product(node, weights) else FLOAT
        if form == FLOAT:
            nodes.append(node)
            continue
        names = [f"{node.name}.int8", f"{node.name}.scales"]
        numbers, scales = _rounded(onnx.numpy_helper.to_array(weights[node.input[1]]), _LARGEST[form])
        graph.initializer.extend(onnx.numpy_helper.from_array(array, name)
                                 for array, name in zip((numbers, scales), names, strict=True))
        make = _of_weights if form == WEIGHTS else _of_integers
        nodes += make(onnx, node, names, rounded)
    read = {name for node in nodes for name in (*node.input, *_read_inside(node))}
    read.update(each.name for each in graph.output)
    kept = [each for each in graph.initializer if each.name in read]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    return copy


def _read_inside(node: Any) -> set[str]:
    """What the graphs inside an operator, such as a loop, read."""
    return {name for attribute in node.attribute if attribute.HasField("g") for inner in attribute.g.node
            for name in (*inner.input, *_read_inside(inner))}


def _rounded(weights: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 weights, and the float32 scale of each column."""
    scales = np.abs(weights).max(axis=0) / largest
    scales = np.where(scales > 0, scales, 1.0).astype(np.float32)
    return np.clip(np.round(weights / scales), -largest, largest).astype(np.int8), scales


def _of_weights(onnx: Any, node: Any, names: list[str], rounded: set[str]) -> list[Any]:
    weights = f"{node.name}.weights"
    return [onnx.helper.make_node("DequantizeLinear", names, [weights], axis=1),
            onnx.helper.make_node("MatMul", [node.input[0], weights], list(node.output), name=node.name)]


def _of_integers(onnx: Any, node: Any, names: list[str], rounded: set[str]) -> list[Any]:
    """Rows are rounded as they come, all of an utterance with one scale and one zero."""
    make, left = onnx.helper.make_node, node.input[0]
    values, scale, zero = (f"{left}.{part}" for part in ("uint8", "scale", "zero"))
    sums, numbers, factors = (f"{node.name}.{part}" for part in ("sums", "numbers", "factors"))
    nodes = [] if left in rounded else [make("DynamicQuantizeLinear", [left], [values, scale, zero])]
    rounded.add(left)
    return [*nodes, make("MatMulInteger", [values, names[0], zero], [sums]),
            make("Cast", [sums], [numbers], to=onnx.TensorProto.FLOAT),
            make("Mul", [scale, names[1]], [factors]),
            make("Mul", [numbers, factors], list(node.output), name=node.name)]
