"""The names by which compiled kernels refer to each other, and to memory and functions that are not compiled by us."""
from __future__ import annotations

TEAM, READ, WRITE, YIELD = "nnet3py_team", "nnet3py_read", "nnet3py_write", "nnet3py_yield"      # of team_memory.py
SHARE = "nnet3py_share"                                                   # of team.py
MULTIPLY, AFFINE = "nnet3py_multiply", "nnet3py_affine"                   # of tile_functions.py
PRODUCTS = "nnet3py_products"                                             # of product_rule.py

# the module that makes each known to LLVM when it is imported
PROVIDERS = {**dict.fromkeys((TEAM, READ, WRITE, YIELD), "nnet3py.engine.team_memory"), SHARE: "nnet3py.engine.team",
             **dict.fromkeys((MULTIPLY, AFFINE), "nnet3py.engine.tile_functions"),
             PRODUCTS: "nnet3py.engine.product_rule"}
