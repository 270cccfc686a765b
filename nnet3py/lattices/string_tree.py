"""Strings of symbols as nodes of a tree: equal strings are equal numbers. Compiled; arrays: ``subset_layout.py``."""
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3py.engine.inline import inline
from nnet3py.lattices.subset_layout import (
    FREE_NODE,
    LENGTH,
    NEXT_NODE,
    NUM_LIVE_NODES,
    NUM_NODES,
    PARENT,
    SYMBOL,
)


class Tree(NamedTuple):
    """The nodes, the first node of each bucket (a power of 2 of them), and counts. Node 0 is the empty string."""

    nodes: np.ndarray
    heads: np.ndarray
    counts: np.ndarray


@inline
def bucket_of(tree: Tree, parent: int, symbol: int) -> int:
    """The bucket of a string."""
    mixed = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(symbol) * np.uint64(0xC2B2AE3D27D4EB4F)
    return np.int64((mixed >> np.uint64(20)) & np.uint64(len(tree.heads) - 1))


@inline
def successor(tree: Tree, string: int, symbol: int) -> int:
    """The string with one more symbol. There must be room for a node."""
    nodes, counts = tree.nodes, tree.counts
    bucket = bucket_of(tree, string, symbol)
    node = np.int64(tree.heads[bucket])
    while node >= 0 and not (nodes[node, PARENT] == string and nodes[node, SYMBOL] == symbol):
        node = np.int64(nodes[node, NEXT_NODE])
    if node >= 0:
        return node
    node = counts[FREE_NODE]
    if node >= 0:
        counts[FREE_NODE] = nodes[node, NEXT_NODE]
    else:
        node = counts[NUM_NODES]
        counts[NUM_NODES] += 1
    counts[NUM_LIVE_NODES] += 1
    nodes[node, PARENT], nodes[node, SYMBOL], nodes[node, LENGTH] = string, symbol, nodes[string, LENGTH] + 1
    nodes[node, NEXT_NODE] = tree.heads[bucket]
    tree.heads[bucket] = node
    return np.int64(node)


@inline
def common_prefix(tree: Tree, left: int, right: int) -> int:
    """The longest string that both begin with."""
    nodes = tree.nodes
    while left != right:
        if nodes[left, LENGTH] >= nodes[right, LENGTH]:
            left = np.int64(nodes[left, PARENT])
        else:
            right = np.int64(nodes[right, PARENT])
    return left


@inline
def appended(tree: Tree, string: int, tail: int, skipped: int, scratch: np.ndarray) -> int:
    """``string``, followed by ``tail`` without its first ``skipped`` symbols. There must be room for these."""
    count = np.int64(tree.nodes[tail, LENGTH]) - skipped
    node = np.int64(tail)
    for place in range(count - 1, -1, -1):
        scratch[place] = tree.nodes[node, SYMBOL]
        node = np.int64(tree.nodes[node, PARENT])
    for place in range(count):
        string = successor(tree, string, scratch[place])
    return np.int64(string)


@inline
def string_is_better(tree: Tree, left: int, right: int) -> bool:
    """Whether ``left`` is shorter, or else comes first in lexicographic order."""
    nodes = tree.nodes
    if left == right:
        return False
    if nodes[left, LENGTH] != nodes[right, LENGTH]:
        return nodes[left, LENGTH] < nodes[right, LENGTH]
    while nodes[left, PARENT] != nodes[right, PARENT]:
        left, right = np.int64(nodes[left, PARENT]), np.int64(nodes[right, PARENT])
    return nodes[left, SYMBOL] < nodes[right, SYMBOL]


def rebuild_heads(nodes: np.ndarray, heads: np.ndarray, counts: np.ndarray) -> None:
    """Put all nodes that are in use into ``heads`` again, whose size may have changed."""
    tree = Tree(nodes, heads, counts)
    for bucket in range(len(heads)):
        heads[bucket] = -1
    for node in range(1, counts[NUM_NODES]):
        if nodes[node, PARENT] >= 0:
            bucket = bucket_of(tree, nodes[node, PARENT], nodes[node, SYMBOL])
            nodes[node, NEXT_NODE] = heads[bucket]
            heads[bucket] = node


def write_strings(nodes: np.ndarray, strings: np.ndarray, starts: np.ndarray, ids: np.ndarray) -> None:
    """Write the symbols of strings to ``ids``, those of string i from ``starts[i]`` on."""
    for i in range(len(strings)):
        node = np.int64(strings[i])
        for place in range(starts[i + 1] - 1, starts[i] - 1, -1):
            ids[place] = nodes[node, SYMBOL]
            node = np.int64(nodes[node, PARENT])
