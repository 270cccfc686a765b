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

from nnet3py.cached_property import cached_property

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
    Operation("sum_mats", "out mat dst, mat a, mat b, f32 alpha, f32 beta",
              "dst = alpha a + beta b; dst may be a or b"),
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
    Operation("affine", "out mat dst, mat src, mat weights, vec bias", "dst[i] = weights src[i] + bias"),
    Operation("spliced_affine", "out mat dst, out mat sums, mat src, mat weights, vec bias, vec scale, vec offset, "
              "ivec starts, int stride, f32 floor",
              "dst[i] = max(floor, bias + sum of blocks of weights times src[starts[p] + stride i]) scale + offset; "
              "sums, unless empty: column_moments after the floor; scale and offset may be empty"),
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

NONLINEAR = (
    Operation("sigmoid", "out mat dst, mat src", "dst = 1 / (1 + exp(-src)); dst may be src"),
    Operation("tanh", "out mat dst, mat src", "dst = tanh(src); dst may be src"),
    Operation("relu", "out mat dst, mat src", "dst = max(src, 0); dst may be src"),
    Operation("softmax", "out mat dst, mat src", "each row: exp(src) over its sum, at least 1e-20; dst may be src"),
    Operation("log_softmax", "out mat dst, mat src", "each row: src - log(sum of exp(src))"),
    Operation("sigmoid_backprop", "out mat dx, mat y, mat dy, vec repair",
              "dx = dy y (1 - y) - repair[j] (2 y - 1)"),
    Operation("tanh_backprop", "out mat dx, mat y, mat dy, vec repair", "dx = dy (1 - y^2) - repair[j] y"),
    Operation("relu_backprop", "out mat dx, mat y, mat dy, vec repair", "dx = (dy where y > 0, else 0) - repair[j]"),
    Operation("softmax_backprop", "out mat dx, mat y, mat dy", "each row: dx = y (dy - sum of y dy); dx may be dy"),
    Operation("log_softmax_backprop", "out mat dx, mat y, mat dy", "each row: dx = dy - exp(y) (sum of dy)"),
    Operation("sigmoid_stats", "out dvec value_sum, out dvec deriv_sum, out dvec counters, mat y, int draw",
              "add columns' sums of y and y (1 - y), the rows to counters[0], unless draw = 0 and counters[0] != 0"),
    Operation("tanh_stats", "out dvec value_sum, out dvec deriv_sum, out dvec counters, mat y, int draw",
              "the same with 1 - y^2"),
    Operation("relu_stats", "out dvec value_sum, out dvec deriv_sum, out dvec counters, mat y, int draw",
              "the same with 1 where y > 0"),
    Operation("value_stats", "out dvec value_sum, out dvec counters, mat y",
              "add columns' sums of y, and the rows to counters[0]"),
    Operation("output_deriv_stats", "out dvec oderiv_sumsq, out dvec counters, mat dy, int draw",
              "add columns' sums of dy^2, and the rows to counters[1], unless draw = 0 and counters[1] != 0"),
    Operation("output_deriv_stats_of_parts", "out dvec oderiv_sumsq, out dvec counters, mat squares, int num_rows, "
              "int draw", "the same of dy of num_rows rows whose squares are summed in squares already"),
    Operation("low_slope_repair", "out vec repair, out dvec updated_counters, dvec deriv_sum, dvec counters, "
              "f32 threshold, f32 scale, f32 draw",
              "repair[j] = 2 scale if deriv_sum[j] / counters[0] < threshold and draw <= 0.5; counts into [2] and [3]"),
    Operation("relu_repair", "out vec repair, out dvec updated_counters, dvec deriv_sum, dvec counters, "
              "int block_dim, f32 lower, f32 upper, f32 scale, f32 draw",
              "repair[j] = -2 scale, 0 or 2 scale by the activity of place j % block_dim; counts into [2] and [3]"),
)

# -- normalize: row norms, batch normalisation -----------------------------------------------------------------------

NORMALIZE = (
    Operation("normalize_rows", "out mat dst, mat src, f32 target_rms",
              "each row scaled to rms target_rms; the log of its rms in a further column, if dst has one"),
    Operation("normalize_rows_backprop", "out mat dx, mat x, mat dy, f32 target_rms, f32 beta",
              "derivative of normalize_rows + beta dx (beta 0 or 1); dx may be dy if beta is 0"),
    Operation("column_moments", "out mat sums, mat src",
              "row p: columns' sums over rows 64 p to 64 p + 63, and in the second half of sums those of squares"),
    Operation("column_products", "out mat sums, mat y, mat dy", "the same of dy, and of y dy in the second half"),
    Operation("batch_norm_propagate", "out mat dst, out mat memo, mat src, mat sums, f32 epsilon, f32 target_rms",
              "columns get mean 0 and variance target_rms^2; sums: column_moments of src; memo (5 rows) gets mean, "
              "mean square, scale, work, work; dst may be src"),
    Operation("batch_norm_backprop", "out mat dx, out mat memo, mat y, mat dy, mat sums, f32 target_rms",
              "derivative of batch_norm_propagate; sums: column_products of y and dy; dx may be dy"),
    Operation("batch_norm_relu_backprop", "out mat dx, out mat squares, out mat memo, mat y, mat dy, mat sums, "
              "mat active, vec repair, f32 target_rms",
              "relu_backprop (active is its y) of batch_norm_backprop; row p of squares: columns' sums of squares of "
              "what is between them, over rows 64 p to 64 p + 63; dx may be dy"),
    Operation("batch_norm_store_stats", "out dvec count, out dvec total, out dvec total_square, mat memo, int num_rows",
              "add num_rows, and num_rows times the memo's mean and mean square"),
)

# -- recurrent: LSTM and GRU cells -----------------------------------------------------------------------------------

RECURRENT = (
    Operation("lstm_propagate", "out mat dst, mat src, mat params",
              "dst = (c, m) from src = (i, f, c, o parts, c_prev, perhaps 3 masks) and peephole weights (3, cells)"),
    Operation("lstm_backprop", "out mat dx, out mat sums, mat x, mat dy, mat params, mat repair, "
              "bool want_dx",
              "dx (if want_dx) and sums (13, cells): gradients of params, sums of values, of slopes"),
    Operation("lstm_self_repair", "out mat repair, out vec flagged, dmat deriv_sum, dvec count, vec config",
              "repair[k, j] = config[5 + k] if deriv_sum[k, j] / (count + 1) < config[k], else 0; flagged = how many"),
    Operation("lstm_store_stats", "out dmat value_sum, out dmat deriv_sum, out dvec self_repair_total, out dvec count, "
              "mat sums, vec flagged, int num_rows",
              "add the sums of lstm_backprop, num_rows flagged, and num_rows"),
    Operation("gru_propagate", "out mat dst, mat z, mat c_prev",
              "dst = (h, c): h = tanh(dst's first half), c = h - z h + z c_prev"),
    Operation("gru_sum_deriv", "out mat dst, mat z, mat y, mat dy",
              "dst = (dh + dc - z dc) (1 - h^2), with y = (h, c) and dy = (dh, dc)"),
    Operation("gru_gate_deriv", "out mat dz, out mat dc_prev, mat z, mat c_prev, mat y, mat dy",
              "dz += dc (c_prev - h), dc_prev += dc z, with y = (h, c) and dy = (dh, dc)"),
    Operation("gru_repair", "out vec repair, out dvec value_sum, out dvec deriv_sum, out dvec counters, mat h, "
              "f32 threshold, f32 draw",
              "add the statistics of h, a tanh; repair[j] = 2 if the average slope is below threshold; only zeros if "
              "draw > 0.5"),
)

# -- structural: permutations, blocks, pooling, statistics -----------------------------------------------------------

STRUCTURAL = (
    Operation("copy_cols", "out mat dst, mat src, ivec indexes",
              "dst[i, j] = src[i, indexes[j]]; a zero column for -1"),
    Operation("multiply_blocks", "out mat dst, mat src", "dst = the product of src's blocks that are as wide as dst"),
    Operation("multiply_blocks_backprop", "out mat dx, mat x, mat dy",
              "each block of dx = dy times the product of the other blocks of x"),
    Operation("add_sum_of_blocks", "out mat dst, mat src, f32 alpha",
              "dst += alpha (sum of src's blocks that are as wide as dst)"),
    Operation("add_to_blocks", "out mat dst, mat src, f32 alpha",
              "every block of dst that is as wide as src += alpha src"),
    Operation("sum_column_groups", "out mat dst, mat src, imat groups",
              "dst[i, j] = sum of src[i, groups[j, 0]:groups[j, 1]]"),
    Operation("copy_to_column_groups", "out mat dst, mat src, imat groups",
              "dst[i, groups[j, 0]:groups[j, 1]] = src[i, j]"),
    Operation("copy_row_pieces", "out mat dst, mat src, imat places",
              "dst[i] = the columns of src[places[i, 0]] from places[i, 1] on"),
    Operation("copy_to_row_pieces", "out mat dst, mat src, imat places",
              "the columns of dst[places[i, 0]] from places[i, 1] on = src[i]"),
    Operation("clip_elements", "out mat dx, out dvec counters, mat dy, f32 limit, bool store",
              "dx = dy held between -limit and limit; dx may be dy; if store, counters[3] += 1"),
    Operation("clip_rows", "out mat dx, out dvec counters, mat dy, f32 limit, bool store",
              "dx = dy, rows of a larger norm than limit scaled down to it; dx may be dy; if store, counts"),
    Operation("clip_gradient_repair", "out mat dx, out dvec updated_counters, mat x, dvec counters, "
              "f32 proportion_threshold, f32 target, f32 scale, f32 draw",
              "pull x towards target if too many rows are clipped and draw <= 0.5; the sum of dx's row norms stays"),
    Operation("truncate_gradient", "out mat dx, out dvec counters, mat dy, vec zeroing, f32 scale, "
              "f32 clipping_threshold, f32 zeroing_threshold, bool store",
              "dx = scale dy, rows clipped to a norm, or 0 where zeroing = -1 and the norm is large; if store, counts"),
)

# -- dropout: masks --------------------------------------------------------------------------------------------------

DROPOUT = (
    Operation("dropout_elements", "out mat dst, mat src, mat draws, f32 proportion",
              "dst = src where draws > proportion, else 0"),
    Operation("dropout_rows", "out mat dst, mat src, mat draws, f32 proportion",
              "dst[i] = src[i] where draws[i, 0] > proportion, else 0"),
    Operation("dropout_backprop", "out mat dx, mat x, mat y, mat dy", "dx = dy y / x, dy where x = 0; dx may be dy"),
    Operation("binary_mask", "out mat mask, f32 proportion, f32 kept",
              "uniform numbers become `kept` where above proportion, else 0"),
    Operation("complementary_masks", "out mat mask, mat draws, f32 proportion",
              "mask[i, 0] = 1 where draws[i, 0] > proportion, mask[i, 1] = 1 where below 1 - proportion; else 0"),
    Operation("continuous_mask", "out mat mask, f32 proportion", "mask = 4 proportion mask + 1 - 2 proportion"),
    Operation("specaugment_mask", "out mat mask, mat draws, int max_zeroed",
              "rows of ones with a random band of at most max_zeroed zeros, cut into draws' columns - 1 regions"),
    Operation("time_mask",
              "out vec mask, mat draws, ivec rows, ivec starts, f32 start_kept, int longest_zeroed, int longest_kept",
              "mask[rows] = stretches of 0 and 1 by turns in each sequence, rows[starts[s]:starts[s + 1]]"),
    Operation("mul_mask_rows", "out mat dst, mat src, mat mask, ivec indexes",
              "dst[i] = src[i] mask[indexes[i]], elementwise; dst may be src"),
)

# -- per_element: trained scales and offsets of columns ---------------------------------------------------------------

PER_ELEMENT = (
    Operation("scale_and_offset", "out mat dst, mat src, vec scales, vec offsets, f32 smallest",
              "dst[i, j] = s[j] src[i, j] + offsets[j], s: scales moved to +-smallest if closer to 0; dst may be src"),
    Operation("scale_gradient_from_output",
              "out mat dst, mat y, mat dy, vec scales, vec offsets, f32 smallest",
              "dst[i, j] = dy[i, j] (y[i, j] - offsets[j]) / s[j], s: scales moved to +-smallest if closer to 0"),
)

# -- pooling: norms and maxima over columns -------------------------------------------------------------------------

POOLING = (
    Operation("pnorm", "out mat dst, mat src", "dst[i, j] = the 2-norm of the j-th group of columns of src[i]"),
    Operation("pnorm_backprop", "out mat dx, mat x, mat y, mat dy",
              "dx = dy x / y, with y and dy of the group; 0 where y = 0"),
    Operation("max_pool", "out mat dst, mat src, ivec shape",
              "dst = maxima of boxes of tensors; shape (12,): x, y, z of tensor, box, steps and number of boxes"),
    Operation("max_pool_backprop", "out mat dx, mat x, mat y, mat dy, ivec shape",
              "dx += dy at every element of a box of x that equals its maximum y"),
)

# -- convolution: gathering columns for the products with the filters -------------------------------------------------

CONVOLUTION = (
    Operation("copy_col_blocks", "out mat dst, mat src, ivec blocks",
              "block j of dst's columns = block blocks[j] of src's; zeros for -1"),
    Operation("add_to_col_blocks", "out mat dst, mat src, ivec blocks",
              "block blocks[j] of dst's columns += block j of src's, in the order of j; nothing for -1"),
    Operation("copy_transposed", "out mat dst, mat src", "dst[i, j] = src[j, i]"),
)

# -- statistics_pooling: sums over ranges of frames, and their means and standard deviations ---------------------------

STATISTICS_POOLING = (
    Operation("extract_statistics", "out mat dst, mat src, imat ranges",
              "dst[i] += number of rows in ranges[i], their sum in src, and that of squares if dst has columns for it"),
    Operation("extract_statistics_backprop", "out mat dx, mat x, mat dy, ivec rows",
              "dx[r] = the sums' columns of dy[rows[r]] + 2 x[r] times the squares' columns; the count has none"),
    Operation("pool_statistics",
              "out mat dst, mat src, imat ranges, int num_log_counts, bool stddevs, f32 variance_floor",
              "dst[i] = log counts, then sums over ranges[i] divided by the count in column 0, perhaps as stddevs"),
    Operation("pool_statistics_backprop",
              "out mat dst, mat y, mat dy, mat counts, int num_log_counts, bool stddevs",
              "dst = derivative by those sums; counts (rows, 1) are logarithms if num_log_counts > 0"),
)

# -- attention: products and sums of rows that lie a fixed number apart ------------------------------------------------

ATTENTION = (
    Operation("add_shifted_dots", "out mat dst, mat a, mat b, int shift, f32 alpha",
              "dst[i, o] += alpha (the dot product of a[i] and b[i + o shift])"),
    Operation("add_shifted_rows", "out mat dst, mat scales, mat src, int shift, f32 alpha",
              "dst[i] += alpha (sum over o of scales[i, o] src[i + o shift])"),
    Operation("add_to_shifted_rows", "out mat dst, mat scales, mat src, int shift, f32 alpha",
              "dst[i + o shift] += alpha scales[i, o] src[i], with i rising"),
    Operation("attention_store_stats", "out dvec count, out dvec entropy, out dmat posterior, mat weights, int draw",
              "add rows, each head's entropy, and the sums of weights (rows, heads * positions); nothing if draw is 0"),
)

# -- objective: outputs against supervision ---------------------------------------------------------------------------

OBJECTIVE = (
    Operation("copy_from_sparse", "out mat dst, lvec row_starts, ivec columns, vec values",
              "dst = the sparse matrix that has values[k] at (i, columns[k]), row_starts[i] <= k < row_starts[i + 1]"),
    Operation("sum_product_sparse", "mat src, lvec row_starts, ivec columns, vec values",
              "the sum of src times that sparse matrix, elementwise, in float64", returns="float"),
)

# -- chain: the sums over paths of LF-MMI training; the matrices of frames lie below each other ------------------------

CHAIN_PARTIAL_SUMS = 128     # the most blocks of states that a GPU sums up for itself


def chain_work_rows(num_states: int) -> int:
    """Rows of ``alpha`` and ``beta``: three frames of sums by state, and of partial sums over states."""
    return 3 * (num_states + CHAIN_PARTIAL_SUMS)


CHAIN = (
    Operation("chain_exp", "out mat dst, mat src, f32 limit, int first, int num_sequences",
              "dst[t cols + p, s] = exp(src[t num_sequences + first + s, p] within +-limit); NaN counts as -limit"),
    Operation("chain_forward",
              "out mat sums, out mat alpha, out mat arriving, mat y, vec initial, vec probs, lvec arc_starts, "
              "ivec sources, lvec state_entries, ivec entry_pdfs, f32 leaky",
              "sums over paths of the denominator graph: to each entry and frame, and of each frame"),
    Operation("chain_backward",
              "out mat y, out mat arriving, out mat beta, mat sums, vec initial, vec probs, lvec arc_starts, "
              "ivec entries, lvec pdf_starts, ivec pdf_entries, ivec entry_pdfs, ivec entry_states, f32 leaky",
              "y = the posterior of each pdf in each frame; arriving is used up; beta begins with the sums of frame 0"),
    Operation("chain_add_posteriors", "out mat dst, mat src, int first, int num_sequences, f32 alpha",
              "dst[t num_sequences + first + s, p] += alpha src[t cols + p, s]"),
    Operation("chain_out_of_range", "out mat dst, mat src, f32 limit, f32 scale",
              "dst -= scale (how far src lies above limit, or, negative, below -limit)"),
    Operation("chain_gather", "out vec dst, mat src, ivec rows, ivec columns", "dst[k] = src[rows[k], columns[k]]"),
    Operation("chain_log_probs", "out dmat found, mat sums, vec initial, f32 leaky",
              "found[0] = the log-probability of each sequence, of the sums of chain_forward"),
    Operation("chain_checks", "out dmat found, mat beta, mat y, mat sums, vec initial, int num_pdfs, f32 leaky",
              "found[1] and found[2] = sums over states and pdfs in frame 0 that should be 1"),
)

# -- numerators: the sums over each sequence's own paths ---------------------------------------------------------------

NUMERATORS = (
    Operation("chain_numerator",
              "out vec posteriors, out dvec alpha, out dvec beta, out dmat sums, vec scores, vec costs, vec finals, "
              "ivec sources, ivec nexts, lvec in_starts, ivec in_arcs, lvec out_starts, ivec out_arcs, "
              "lvec level_starts, int num_levels, f32 weight",
              "sums[s] = log of the sum over the paths of graph s, forward and backward; posteriors times the weight"),
    Operation("chain_cyclic_numerator",
              "out mat posteriors, out mat alpha, out mat scales, out dmat sums, mat scores, vec finals, "
              "vec in_weights, vec out_weights, lvec in_starts, ivec in_sources, ivec in_columns, lvec out_starts, "
              "ivec out_nexts, ivec out_columns, lvec column_starts, ivec column_arcs, ivec sources, "
              "lvec first_states, lvec first_columns, f32 weight",
              "the same for graphs with cycles whose paths have an arc a frame; sums[s, 0] only, -inf without a path"),
)

# -- eigen: of small symmetric matrices --------------------------------------------------------------------------------

EIGEN = (
    Operation("symmetric_eigen",
              "out vec values, out mat vectors, out mat matrix, out mat work, out lvec job",
              "begun: matrix = vectors' diag(values) vectors; matrix and work are destroyed; NaN for NaN"),
    Operation("finish_aside", "out lvec job", "what was begun with job is finished"),
)

# -- orthogonal: rows that are to be orthogonal ------------------------------------------------------------------------

ORTHOGONAL = (
    Operation("orthogonalise",
              "out mat w, out mat gram, out mat square, out mat moment, vec lengths, dvec numbers",
              "if numbers ask for it and gram, w w', shows the need: w / lengths = orthonormal rows, gram = w w'"),
)

# -- natural_gradient: sizes, the factor, and the small matrices of its update -----------------------------------------

NATURAL_GRADIENT = (
    Operation("natural_gradient_size", "out dvec numbers, mat x, f64 more, bool further",
              "the size in numbers = the sum of all x[i, j]^2 + more, plus what it was if further"),
    Operation("natural_gradient_rest", "out dvec numbers, mat x",
              "the rest in numbers = the sum of all x[i, j]^2, x having been preconditioned"),
    Operation("preconditioned_size", "out dvec numbers, mat cross, mat gram",
              "the rest in numbers = size - 2 trace(cross) + the sum of cross * gram; wanted if digits are lost"),
    Operation("exact_size", "out dvec numbers, mat x, mat projected, mat w, int start, bool ones",
              "if wanted: the rest in numbers += squares of x - projected w, columns from start (and 1 - its last)"),
    Operation("natural_gradient_factor", "out vec factor, dvec inner, dvec outer, f64 rate, bool both",
              "factor[0] = rate times the root of size over rest in numbers inner (and outer); 0: not to be used"),
    Operation("natural_gradient_fault", "dvec numbers",
              "0; 1: the rows were not finite, or too large to square; 2: the moments were", returns="int"),
    Operation("natural_gradient_moments",
              "out mat z, out dvec numbers, out vec inverse, mat square, mat cross, vec spectrum, f64 num_rows, "
              "f64 dim, f64 eta, f64 alpha",
              "z = the new estimate along the old directions over its trace (in numbers) or 1 if that is less"),
    Operation("natural_gradient_directions",
              "out mat mix, out vec kept, out vec lengths, out vec spectrum, out dvec numbers, out vec order, "
              "vec inverse, vec eigenvalues, mat vectors, f64 num_rows, f64 dim, f64 eta, f64 alpha",
              "new W = mix (J + diag(kept) W), with rows of these lengths; numbers say whether to check them"),
)

# -- by_factor: additions with a factor that lies on the device --------------------------------------------------------

BY_FACTOR = (
    Operation("add_mat_by", "out mat dst, mat src, vec factor", "dst += factor[0] src, nothing if that is 0"),
    Operation("add_mat_mat_by", "out mat dst, mat a, mat b, vec factor", "dst += factor[0] a' b, nothing if that is 0"),
    Operation("add_row_sum_by", "out vec dst, mat src, vec factor",
              "dst[j] += factor[0] (sum over i of src[i, j]), nothing if that is 0"),
)

# -- orthonormal: of the orthonormal constraint -----------------------------------------------------------------------

ORTHONORMAL = (
    Operation("orthonormal_step", "out mat p, out vec ratio, f32 constraint",
              "p = f (p - s^2 I), such that M -= p M is a step towards M M' = s^2 I; p is M M' before"),
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
    "pooling": POOLING,
    "convolution": CONVOLUTION,
    "attention": ATTENTION,
    "statistics_pooling": STATISTICS_POOLING,
    "objective": OBJECTIVE,
    "chain": CHAIN,
    "numerators": NUMERATORS,
    "eigen": EIGEN,
    "orthogonal": ORTHOGONAL,
    "natural_gradient": NATURAL_GRADIENT,
    "by_factor": BY_FACTOR,
    "orthonormal": ORTHONORMAL,
}

FAMILY_OF: dict[str, str] = {operation.name: family for family, members in FAMILIES.items() for operation in members}
OPERATIONS: dict[str, Operation] = {operation.name: operation for members in FAMILIES.values() for operation in members}
