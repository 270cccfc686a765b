"""The names by which compiled kernels refer to each other, and to memory and functions that are not compiled by us."""
from __future__ import annotations

TEAM, READ, WRITE, YIELD = "nnet3py_team", "nnet3py_read", "nnet3py_write", "nnet3py_yield"      # of team_memory.py
SHARE = "nnet3py_share"                                                   # of team.py
MULTIPLY, AFFINE = "nnet3py_multiply", "nnet3py_affine"                   # of tile_functions.py
PRODUCTS = "nnet3py_products"                                             # of product_rule.py
ARRAY, NDARRAY = "nnet3py_array", "nnet3py_ndarray"                       # of arrays.py
# Objects by names of ours: LLVM has one table for the whole process, and numba's PyExc_TypeError in it is an object,
# CPython's a variable. Whichever came last would make the other's code take one for the other.
FLOAT, BYTES, NONE = "nnet3py_float", "nnet3py_bytes", "nnet3py_none"     # of entries.py, as the next two
TYPE_ERROR, OVERFLOW_ERROR = "nnet3py_type_error", "nnet3py_overflow_error"

# the module that makes each known to LLVM when it is imported
PROVIDERS = {**dict.fromkeys((TEAM, READ, WRITE, YIELD), "nnet3py.engine.team_memory"), SHARE: "nnet3py.engine.team",
             **dict.fromkeys((MULTIPLY, AFFINE), "nnet3py.engine.tile_functions"),
             PRODUCTS: "nnet3py.engine.product_rule", ARRAY: "nnet3py.engine.arrays"}
