"""The table of operations: every name that an ops object answers to, with its arguments, declared once.

Both devices derive from it: ``cpu/<family>.py`` and ``cuda/<family>.py`` hold functions of these names with these
arguments in this order, and a test compares them. An operation is declared as::

    Operation("copy_rows", "out mat dst, mat src, ivec indexes, f32 alpha", "dst[i] = alpha src[indexes[i]]")

Each argument is a kind (``KINDS`` below) and a name; ``out`` marks what the operation writes. Destinations come first,
then sources, index arrays and scalars. A ``= value`` after the name is the argument's default. To add operations,
append to your family's tuple; a new family is a new tuple here, named in ``FAMILIES``, and a module of that name per
device.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

KINDS = {
    "mat": "float32 (rows, cols), columns adjacent, any row stride",
    "dmat": "float64 (rows, cols), columns adjacent, any row stride",
    "imat": "int32 (rows, cols), contiguous",
    "vec": "float32 (dim,), contiguous",
    "dvec": "float64 (dim,), contiguous",
    "ivec": "int32 (dim,), contiguous; -1 for none",
    "lvec": "int64 (dim,), contiguous; -1 for none",
    "u8vec": "uint8 (dim,), contiguous",
    "f32": "float",
    "f64": "float",
    "int": "int",
    "bool": "bool",
}
SCALARS = ("f32", "f64", "int", "bool")
INDEXES = ("imat", "ivec", "lvec")


@dataclass(frozen=True)
class Argument:
    """One argument of an operation; ``role`` is destination, source, index or scalar."""

    name: str
    kind: str
    role: str
    default: str | None = None


@dataclass(frozen=True)
class Operation:
    """One operation: its name, its arguments as text (see the module), what it does in one line, what it returns."""

    name: str
    text: str
    meaning: str
    returns: str = ""

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in order."""
        return tuple(_parse_argument(part) for part in self.text.split(","))

    @property
    def kinds(self) -> str:
        """The arguments' kinds in order, as the kernel decorators take them."""
        return " ".join(argument.kind for argument in self.arguments)


def _parse_argument(text: str) -> Argument:
    declaration, _, default = text.partition("=")
    words = declaration.split()
    written = words[0] == "out"
    kind, name = words[1:] if written else words
    if kind not in KINDS:
        raise ValueError(f"unknown argument kind {kind!r} in {text!r}; known: {', '.join(KINDS)}")
    role = ("destination" if written else "scalar" if kind in SCALARS else "index" if kind in INDEXES else "source")
    return Argument(name, kind, role, default.strip() or None)


# -- rows: moving, scaling and adding rows (the command list's own operations) ---------------------------------------

ROWS = (
    Operation("set_const", "out mat dst, f32 value", "dst = value"),
    Operation("copy_mat", "out mat dst, mat src, f32 alpha", "dst = alpha src; dst may be src"),
    Operation("add_mat", "out mat dst, mat src, f32 alpha", "dst += alpha src"),
    Operation("copy_rows", "out mat dst, mat src, ivec indexes, f32 alpha",
              "dst[i] = alpha src[indexes[i]]; a zero row for -1"),
    Operation("add_rows", "out mat dst, mat src, ivec indexes, f32 alpha",
              "dst[i] += alpha src[indexes[i]]; nothing for -1"),
    Operation("copy_rows_multi", "out mat dst, vec arena, lvec offsets, f32 alpha",
              "dst[i] = alpha (the row that starts at arena[offsets[i]]); a zero row for -1"),
    Operation("add_rows_multi", "out mat dst, vec arena, lvec offsets, f32 alpha",
              "dst[i] += alpha (the row that starts at arena[offsets[i]]); nothing for -1"),
    Operation("copy_to_rows_multi", "out vec arena, lvec offsets, mat src",
              "the row that starts at arena[offsets[i]] = src[i]; nothing for -1"),
    Operation("add_to_rows_multi", "out vec arena, lvec offsets, mat src, f32 alpha",
              "the row that starts at arena[offsets[i]] += alpha src[i]; nothing for -1; the rows are distinct"),
    Operation("add_row_ranges", "out mat dst, mat src, imat ranges, f32 alpha",
              "dst[i] += alpha (sum of src[r] for ranges[i, 0] <= r < ranges[i, 1]); nothing for (-1, -1)"),
)

# -- products --------------------------------------------------------------------------------------------------------

PRODUCTS = (
    Operation("add_mat_mat",
              "out mat dst, mat a, mat b, f32 alpha, f32 beta, bool trans_a = False, bool trans_b = False",
              "dst = alpha op(a) op(b) + beta dst; dst is neither a nor b"),
)

# -- elementwise: matrices with matrices and vectors of the same or of one dimension ---------------------------------

ELEMENTWISE = (
    Operation("add_vec_to_rows", "out mat dst, vec vec, f32 alpha, f32 beta", "dst[i] = alpha vec + beta dst[i]"),
    Operation("mul_cols_vec", "out mat dst, mat src, vec vec", "dst[i, j] = src[i, j] vec[j]; dst may be src"),
    Operation("mul_rows_vec", "out mat dst, mat src, vec vec", "dst[i, j] = src[i, j] vec[i]; dst may be src"),
    Operation("add_mat_diag_vec", "out mat dst, mat src, vec vec, f32 alpha, f32 beta",
              "dst[i, j] = alpha src[i, j] vec[j] + beta dst[i, j]"),
    Operation("add_diag_vec_mat", "out mat dst, vec vec, mat src, f32 alpha, f32 beta",
              "dst[i, j] = alpha vec[i] src[i, j] + beta dst[i, j]"),
    Operation("mul_elements", "out mat dst, mat a, mat b", "dst = a * b, elementwise; dst may be a or b"),
    Operation("add_mat_elements", "out mat dst, mat a, mat b, f32 alpha, f32 beta",
              "dst = alpha a * b + beta dst, elementwise"),
    Operation("set_vec", "out vec dst, f32 value", "dst = value"),
    Operation("copy_vec", "out vec dst, vec src, f32 alpha", "dst = alpha src; dst may be src"),
    Operation("add_vec", "out vec dst, vec src, f32 alpha, f32 beta", "dst = alpha src + beta dst"),
)

# -- reductions: sums over rows, columns or everything ---------------------------------------------------------------

REDUCTIONS = (
    Operation("add_row_sum", "out vec dst, mat src, f32 alpha, f32 beta",
              "dst[j] = alpha (sum over i of src[i, j]) + beta dst[j]"),
    Operation("add_row_sum_sq", "out vec dst, mat src, f32 alpha, f32 beta",
              "dst[j] = alpha (sum over i of src[i, j]^2) + beta dst[j]"),
    Operation("add_row_sum_product", "out vec dst, mat a, mat b, f32 alpha, f32 beta",
              "dst[j] = alpha (sum over i of a[i, j] b[i, j]) + beta dst[j]"),
    Operation("add_row_sum_double", "out dvec dst, mat src, f64 alpha",
              "dst[j] += alpha (sum over i of src[i, j]), in float64"),
    Operation("add_row_sum_sq_double", "out dvec dst, mat src, f64 alpha",
              "dst[j] += alpha (sum over i of src[i, j]^2), in float64"),
    Operation("add_col_sum_product", "out vec dst, mat a, mat b, f32 alpha, f32 beta",
              "dst[i] = alpha (sum over j of a[i, j] b[i, j]) + beta dst[i]"),
    Operation("sum_sq", "mat src", "the sum of all src[i, j]^2, in float64", returns="float"),
    Operation("sum_product", "mat a, mat b", "the sum of all a[i, j] b[i, j], in float64", returns="float"),
    Operation("dot", "vec a, vec b", "the sum of all a[i] b[i], in float64", returns="float"),
)

# -- random: what ops.random fills arrays with --------

RANDOM = (
    Operation("philox_uniform", "out mat dst, int seed, int block, int minibatch, int component",
              "dst = uniform numbers in [0, 1) from the blocks of the stream that start at `block`"),
    Operation("philox_normal", "out mat dst, int seed, int block, int minibatch, int component",
              "dst = standard normal numbers from the blocks of the stream that start at `block`"),
)

# -- nonlinear: sigmoid, tanh, rectifiers, softmax -------------------------------------------------------------------

NONLINEAR: tuple[Operation, ...] = (
)

# -- normalize: row norms, batch normalisation -----------------------------------------------------------------------

NORMALIZE: tuple[Operation, ...] = (
)

# -- recurrent: LSTM and GRU cells -----------------------------------------------------------------------------------

RECURRENT: tuple[Operation, ...] = (
)

# -- structural: permutations, blocks, pooling, statistics -----------------------------------------------------------

STRUCTURAL: tuple[Operation, ...] = (
)

# -- dropout: masks --------------------------------------------------------------------------------------------------

DROPOUT: tuple[Operation, ...] = (
)

# -- per_element: trained scales and offsets of columns ---------------------------------------------------------------

PER_ELEMENT = (
    Operation("scale_and_offset", "out mat dst, mat src, vec scales, vec offsets, f32 smallest",
              "dst[i, j] = s[j] src[i, j] + offsets[j], s: scales moved to +-smallest if closer to 0; dst may be src"),
    Operation("scale_gradient_from_output",
              "out mat dst, mat y, mat dy, vec scales, vec offsets, f32 smallest",
              "dst[i, j] = dy[i, j] (y[i, j] - offsets[j]) / s[j], s: scales moved to +-smallest if closer to 0"),
)

FAMILIES: dict[str, tuple[Operation, ...]] = {   # family = name of its module in cpu/ and cuda/
    "rows": ROWS,
    "products": PRODUCTS,
    "elementwise": ELEMENTWISE,
    "reductions": REDUCTIONS,
    "random": RANDOM,
    "nonlinear": NONLINEAR,
    "normalize": NORMALIZE,
    "recurrent": RECURRENT,
    "structural": STRUCTURAL,
    "dropout": DROPOUT,
    "per_element": PER_ELEMENT,
}

FAMILY_OF: dict[str, str] = {operation.name: family for family, members in FAMILIES.items() for operation in members}
OPERATIONS: dict[str, Operation] = {operation.name: operation for members in FAMILIES.values() for operation in members}
