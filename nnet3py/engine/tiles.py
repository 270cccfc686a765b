"""Products of matrices by tiles that stay in the processor's registers, mostly without copies of the factors.

BLAS copies both factors into the order in which its kernels read them. For large square products that is the fastest
way; in networks one dimension is often 20 to 200, and copying takes a third of the time. Here a tile of the result
(rows x vectors of columns) is kept in registers while a loop over a block of the inner dimension k adds products to
it: an element of the left matrix, read in place, times a part of a row of the right one. Blocks of the factors are
copied if they are strided, transposed, or needed often. A "panel" is a block of rows of the right matrix, in the
columns of a tile.
Every element is the sum over k in the same order, for any size of the product, and any way of cutting it.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nnet3py.engine import compiling, interface
from nnet3py.engine.inline import address, bring, c_function, get_float, inline, prefetch_line, set_float, stack_floats
from nnet3py.engine.kernel_code import Code
from nnet3py.engine.processor import AVX2, AVX512, GENERIC, NEON, SSE4, processor

# Floats in a vector, rows of a tile, vectors in a row of a tile: registers hold the tile, a row of the right matrix,
# and some elements of the left one
SHAPES = {AVX512: (16, 8, 3),       # 32 registers
          AVX2: (8, 6, 2),          # 16 registers
          NEON: (4, 4, 5),          # 32 registers; a tile has no more rows than a vector has numbers
          SSE4: (4, 4, 2),          # it has no fused multiply-add, so by default BLAS computes products
          GENERIC: (4, 4, 2)}
VECTOR, TILE_ROWS, TILE_VECTORS = SHAPES[processor().kind]
PANEL = VECTOR * TILE_VECTORS     # columns of a tile
ROW_COUNTS = tuple(sorted({TILE_ROWS, 4, 2, 1}, reverse=True))
BLOCK = 160 if processor().kind == AVX512 else 256   # length of blocks of k: a panel fits in the first-level cache
ROW_BLOCK = 192                   # rows of the left matrix of which a block of k fits in the second-level cache
ITEM, CACHE_LINE = 4, 64          # bytes
PANEL_SIZE, TILE_SIZE = BLOCK * PANEL, TILE_ROWS * PANEL
GROUP_SIZE = BLOCK * TILE_ROWS + VECTOR      # copy of a tile's rows of the left matrix, and space for excess elements
LEFT_SIZE = -(-ROW_BLOCK // TILE_ROWS) * GROUP_SIZE
# How many columns ahead a transposed left matrix is prefetched while it is copied: its columns are far from each
# other, often on different pages, so the processor's own prefetching does not work.
COLUMNS_AHEAD = 8
PANELS = 2                                   # panels that are copied side by side
PANELS_SIZE = PANELS * PANEL_SIZE
LEAST_COLUMNS_TO_COPY_FOR = 256              # for a result of so many columns, rows of the left matrix are copied
LEAST_ROWS_TO_COPY_FOR = 4 * TILE_ROWS       # for so many rows, panels are copied: a tenth of the product's time

_I64, _FLOAT = ir.IntType(64), ir.FloatType()
_VECTOR_TYPE = ir.VectorType(_FLOAT, VECTOR)
# Arguments of a tile: k, left (address, bytes from row to row and from k to k), right (address, bytes), result
# (address, bytes), addend (address, bytes); alpha and beta
_TILE_TYPE = ir.FunctionType(ir.VoidType(), [_I64] * 10 + [_FLOAT, _FLOAT])


def _define_tile(module: ir.Module, rows: int, vectors: int) -> ir.Function:
    """Return the LLVM function that computes a tile: result = alpha left right + beta addend; define it if missing."""
    name = f"nnet3py_tile_{rows}_{vectors}"
    if name in module.globals:
        return module.get_global(name)
    function = ir.Function(module, _TILE_TYPE, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    count, left, row_step, k_step, right, right_step, *rest = function.args
    start, loop, last, odd, done = (function.append_basic_block(block)
                                    for block in ("start", "loop", "last", "odd", "done"))
    builder = ir.IRBuilder(start)
    multiply_add = cgutils.get_or_insert_function(module, ir.FunctionType(_VECTOR_TYPE, [_VECTOR_TYPE] * 3),
                                                  f"llvm.fma.v{VECTOR}f32")
    zeros = [[ir.Constant(_VECTOR_TYPE, None)] * vectors for _ in range(rows)]
    row_offsets = [builder.mul(row_step, ir.Constant(_I64, r)) for r in range(rows)]

    def add_products(sums: list[list[Any]], left_now: Any, right_now: Any) -> tuple[list[list[Any]], Any, Any]:
        """Return the sums with the products of one more k, and the addresses for the next."""
        columns = [_load(builder, builder.add(right_now, ir.Constant(_I64, v * VECTOR * ITEM))) for v in range(vectors)]
        new_sums = []
        for r in range(rows):
            number = builder.load(builder.inttoptr(builder.add(left_now, row_offsets[r]), _FLOAT.as_pointer()))
            wide = _splat(builder, number)
            new_sums.append([builder.call(multiply_add, [wide, columns[v], sums[r][v]]) for v in range(vectors)])
        return new_sums, builder.add(left_now, k_step), builder.add(right_now, right_step)

    _prefetch(builder, rest[0], rest[1], rows, vectors)
    # Rounds are of two: a shorter loop is slower by a fifth where it begins at the wrong place of a cache line.
    num_rounds = builder.lshr(count, ir.Constant(_I64, 1))
    builder.cbranch(builder.icmp_signed(">", num_rounds, ir.Constant(_I64, 0)), loop, last)

    builder.position_at_end(loop)
    rounds, left_now, right_now = (builder.phi(_I64) for _ in range(3))
    sums = [[builder.phi(_VECTOR_TYPE) for _ in range(vectors)] for _ in range(rows)]
    new_sums, next_left, next_right = sums, left_now, right_now
    for _ in range(2):
        new_sums, next_left, next_right = add_products(new_sums, next_left, next_right)
    # keeps LLVM from unrolling the loop further: it would then move sums from register to register
    nothing = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "", side_effect=True)
    builder.call(nothing, [], attrs=("convergent",))
    rounds_left = builder.sub(rounds, ir.Constant(_I64, 1))
    builder.cbranch(builder.icmp_signed(">", rounds_left, ir.Constant(_I64, 0)), loop, last)
    for phi, first, following in ((rounds, num_rounds, rounds_left), (left_now, left, next_left),
                                  (right_now, right, next_right)):
        phi.add_incoming(first, start)
        phi.add_incoming(following, loop)
    _join(sums, (zeros, start), (new_sums, loop))

    builder.position_at_end(last)
    so_far = [[builder.phi(_VECTOR_TYPE) for _ in range(vectors)] for _ in range(rows)]
    left_now, right_now = builder.phi(_I64), builder.phi(_I64)
    _join([*so_far, [left_now, right_now]], ([*zeros, [left, right]], start),
          ([*new_sums, [next_left, next_right]], loop))
    builder.cbranch(builder.trunc(count, ir.IntType(1)), odd, done)

    builder.position_at_end(odd)
    with_last, _, _ = add_products(so_far, left_now, right_now)
    builder.branch(done)

    builder.position_at_end(done)
    totals = [[builder.phi(_VECTOR_TYPE) for _ in range(vectors)] for _ in range(rows)]
    _join(totals, (so_far, last), (with_last, odd))
    _store_scaled_tile(builder, totals, multiply_add, *rest)
    builder.ret_void()
    return function


def _prefetch(builder: ir.IRBuilder, start: Any, step: Any, rows: int, vectors: int) -> None:
    """Write LLVM code that prefetches the cache lines of a tile's result, for use after its products are computed."""
    for r in range(rows):
        for offset in range(0, vectors * VECTOR * ITEM, CACHE_LINE):
            place = builder.add(builder.add(start, builder.mul(step, ir.Constant(_I64, r))), ir.Constant(_I64, offset))
            prefetch_line(builder, place, for_writing=1)


def _join(phis: list[list[Any]], *incoming: tuple[list[list[Any]], Any]) -> None:
    """Add the values that phi nodes have when control comes from each of several basic blocks."""
    for values, block in incoming:
        for row, others in zip(phis, values, strict=True):
            for phi, value in zip(row, others, strict=True):
                phi.add_incoming(value, block)


def _store_scaled_tile(builder: ir.IRBuilder, sums: list[list[Any]], multiply_add: Any, result: Any, result_step: Any,
                       addend: Any, addend_step: Any, alpha: Any, beta: Any) -> None:
    replaces = builder.fcmp_ordered("==", beta, ir.Constant(_FLOAT, 0.0))
    wide_alpha, wide_beta = _splat(builder, alpha), _splat(builder, beta)
    with builder.if_else(replaces) as (then, otherwise):
        with then:
            _store_tile(builder, result, result_step, [[builder.fmul(wide_alpha, total) for total in row]
                                                       for row in sums])
        with otherwise:
            added = _load_tile(builder, addend, addend_step, sums)
            _store_tile(builder, result, result_step, [
                [builder.call(multiply_add, [wide_alpha, total, builder.fmul(wide_beta, other)])
                 for total, other in zip(*rows, strict=True)] for rows in zip(sums, added, strict=True)])


def _load(builder: ir.IRBuilder, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _VECTOR_TYPE.as_pointer()), align=ITEM)


def _splat(builder: ir.IRBuilder, number: Any) -> Any:
    vector = builder.insert_element(ir.Constant(_VECTOR_TYPE, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(vector, ir.Constant(_VECTOR_TYPE, ir.Undefined),
                                  ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), None))


def _places(builder: ir.IRBuilder, start: Any, step: Any, tile: list[list[Any]]) -> list[list[Any]]:
    """Write LLVM code for the addresses of a tile's vectors, for each row; ``step`` is the bytes from row to row."""
    rows = [builder.add(start, builder.mul(step, ir.Constant(_I64, r))) for r in range(len(tile))]
    return [[builder.add(row, ir.Constant(_I64, v * VECTOR * ITEM)) for v in range(len(tile[0]))] for row in rows]


def _load_tile(builder: ir.IRBuilder, start: Any, step: Any, like: list[list[Any]]) -> list[list[Any]]:
    return [[_load(builder, place) for place in row] for row in _places(builder, start, step, like)]


def _store_tile(builder: ir.IRBuilder, start: Any, step: Any, values: list[list[Any]]) -> None:
    for row, places in zip(values, _places(builder, start, step, values), strict=True):
        for value, place in zip(row, places, strict=True):
            builder.store(value, builder.inttoptr(place, _VECTOR_TYPE.as_pointer()), align=ITEM)


def _tile(typingctx, rows, vectors, count, left, row_step, k_step, right, right_step, result, result_step, addend,
          addend_step, alpha, beta):
    """Compute a tile of ``rows`` (one of ROW_COUNTS) x ``vectors``; other arguments as those of ``_TILE_TYPE``."""
    def codegen(context, builder, signature, args):
        kinds = [(r, v) for r in ROW_COUNTS for v in range(1, TILE_VECTORS + 1)]
        wanted = builder.add(builder.mul(args[0], ir.Constant(_I64, TILE_VECTORS + 1)), args[1])
        end = builder.append_basic_block("end")
        switch = builder.switch(wanted, end)
        for r, v in kinds:
            block = builder.append_basic_block(f"tile_{r}_{v}")
            switch.add_case(ir.Constant(_I64, r * (TILE_VECTORS + 1) + v), block)
            with builder.goto_block(block):
                builder.call(_define_tile(builder.module, r, v), args[2:])
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 12, types.float32, types.float32), codegen


def _transpose(rows_of_source: int) -> Any:
    def intrinsic_function(typingctx, target, target_step, source, source_step):
        """Transpose: copy ``rows_of_source`` rows of VECTOR numbers to VECTOR rows of a target; steps are in bytes.

        VECTOR numbers are written to each row of the target, of which only the first ``rows_of_source`` are defined.
        """
        def codegen(context, builder, signature, args):
            rows = [_load(builder, builder.add(args[2], builder.mul(args[3], ir.Constant(_I64, r))))
                    for r in range(rows_of_source)]
            rows += [ir.Constant(_VECTOR_TYPE, ir.Undefined)] * (VECTOR - rows_of_source)
            step = 1
            while step < VECTOR:       # swap the off-diagonal blocks of 2 x 2 squares, then 4 x 4, and so on
                for r in range(VECTOR):
                    if not r & step:
                        upper, lower = rows[r], rows[r + step]
                        rows[r] = _shuffle(builder, upper, lower, [
                            VECTOR + c - step if c & step else c for c in range(VECTOR)])
                        rows[r + step] = _shuffle(builder, upper, lower, [
                            VECTOR + c if c & step else c + step for c in range(VECTOR)])
                step *= 2
            for r, row in enumerate(rows):
                place = builder.add(args[0], builder.mul(args[1], ir.Constant(_I64, r)))
                builder.store(row, builder.inttoptr(place, _VECTOR_TYPE.as_pointer()), align=ITEM)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp, types.intp), codegen

    return intrinsic_function


def _shuffle(builder: ir.IRBuilder, first: Any, second: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), places))


def _copy_vectors(typingctx, target, source, vectors):
    """Copy ``vectors`` (at most TILE_VECTORS) vectors from one address to another."""
    def codegen(context, builder, signature, args):
        for v in range(TILE_VECTORS):
            with builder.if_then(builder.icmp_signed(">", args[2], ir.Constant(_I64, v))):
                offset = ir.Constant(_I64, v * VECTOR * ITEM)
                place = builder.inttoptr(builder.add(args[0], offset), _VECTOR_TYPE.as_pointer())
                builder.store(_load(builder, builder.add(args[1], offset)), place, align=ITEM)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), codegen


tile: Any = intrinsic(_tile)
transpose_square: Any = intrinsic(_transpose(VECTOR))
transpose_tile_rows: Any = intrinsic(_transpose(TILE_ROWS))
copy_vectors: Any = intrinsic(_copy_vectors)
ZERO, ONE = np.float32(0), np.float32(1)
TRANS_A, TRANS_B = 2, 1       # bits of ``form``: which factors are transposed


@inline
def _copy_panel(panel, right, row_step, column_step, count, width, padded):
    """Copy ``count`` rows of ``width`` columns of a right matrix, and zeros up to column ``padded``, to ``panel``.

    Addresses and steps are in bytes; ``panel`` has PANEL columns.
    """
    for j in range(padded):
        source = right + j * column_step
        for k in range(count):
            value = get_float(source + k * row_step) if j < width else ZERO
            set_float(panel + (k * PANEL + j) * ITEM, value)


@inline
def _transpose_panel(panel, right, column_step, count, width):
    """Copy a panel of a right matrix whose columns are contiguous; ``width`` is a multiple of VECTOR."""
    squares = count - count % VECTOR
    for j in range(0, width, VECTOR):
        for k in range(0, squares, VECTOR):
            source = right + j * column_step + k * ITEM
            transpose_square(panel + (k * PANEL + j) * ITEM, PANEL * ITEM, source, column_step)
    if squares < count:
        _copy_panel(panel + squares * PANEL * ITEM, right + squares * ITEM, ITEM, column_step, count - squares, width,
                    width)


@inline
def _copy_rows(target, target_step, source, source_step, rows, width):
    for i in range(rows):
        for j in range(width):
            set_float(target + i * target_step + j * ITEM, get_float(source + i * source_step + j * ITEM))


@inline
def next_rows(rows):
    """Return the number of rows of the next tile, one of ROW_COUNTS, when ``rows`` rows remain."""
    return TILE_ROWS if rows >= TILE_ROWS else 4 if rows >= 4 else 2 if rows >= 2 else 1


@inline
def depth_of(k):
    """Return the length of blocks of the inner dimension ``k``, at most BLOCK; the last block may be shorter."""
    blocks = (k + BLOCK - 1) // BLOCK
    return min(k, (k + 4 * blocks - 1) // (4 * blocks) * 4)


@inline
def panel_width(columns):
    """Return the width of the next panel when ``columns`` columns remain: whole vectors, or less than one vector."""
    width = min(PANEL, columns)
    return width if width < VECTOR else width - width % VECTOR


@inline
def panel_of_right(panel, right, right_step, column_step, count, width, vectors, rows):
    """Return the address of a panel of the right matrix, in place or copied to ``panel``, and the bytes per row.

    It is copied if tiles cannot read it in place, or if there are so many ``rows`` of the left matrix that copying
    makes the product faster: in place, rows that are far from each other may compete for the same cache lines.
    """
    if width < vectors * VECTOR:
        _copy_panel(panel, right, right_step, column_step, count, width, vectors * VECTOR)
    elif column_step != ITEM:
        _transpose_panel(panel, right, column_step, count, width)
    elif rows >= LEAST_ROWS_TO_COPY_FOR:
        for k in range(count):
            copy_vectors(panel + k * PANEL * ITEM, right + k * right_step, vectors)
    else:
        return right, right_step
    return panel, PANEL * ITEM


@inline
def _copy_panels(panels, right, right_step, count, num_panels):
    """Copy ``num_panels`` adjacent panels of the right matrix, row by row, which changes pages less often."""
    for k in range(count):
        for p in range(num_panels):
            copy_vectors(panels + (p * PANEL_SIZE + k * PANEL) * ITEM, right + k * right_step + p * PANEL * ITEM,
                         TILE_VECTORS)


@inline
def _copy_left(packed, left, k_step, rows, count):
    """Copy ``rows`` x ``count`` elements of a transposed left matrix to ``packed``, the elements of each tile together.

    A tile's elements are a group of GROUP_SIZE floats, in which the TILE_ROWS elements of each k are adjacent.
    """
    for k in range(count):
        source, target, i = left + k * k_step, packed + k * TILE_ROWS * ITEM, 0
        for line in range(0, rows * ITEM, CACHE_LINE):
            bring(source + COLUMNS_AHEAD * k_step + line)
        while i + VECTOR <= rows:                # elements beyond TILE_ROWS are overwritten later, or are not used
            copy_vectors(target, source + i * ITEM, 1)
            target += GROUP_SIZE * ITEM
            i += TILE_ROWS
        while i < rows:
            for r in range(min(TILE_ROWS, rows - i)):
                set_float(target + r * ITEM, get_float(source + (i + r) * ITEM))
            target += GROUP_SIZE * ITEM
            i += TILE_ROWS


@inline
def transpose_left(packed, left, row_step, rows, count):
    """Copy a left matrix that is not transposed, in the order of :func:`_copy_left`."""
    for i in range(0, rows, TILE_ROWS):
        target, source, k = packed + i // TILE_ROWS * GROUP_SIZE * ITEM, left + i * row_step, 0
        if i + TILE_ROWS <= rows:
            while k + VECTOR <= count:
                transpose_tile_rows(target + k * TILE_ROWS * ITEM, TILE_ROWS * ITEM, source + k * ITEM, row_step)
                k += VECTOR
        while k < count:
            for r in range(min(TILE_ROWS, rows - i)):
                set_float(target + (k * TILE_ROWS + r) * ITEM, get_float(source + r * row_step + k * ITEM))
            k += 1


def _multiply(result, result_step, left, left_step, right, given_right_step, m, n, k, alpha, beta, form):
    """Compute :func:`multiply`; a matrix is given by the address of its first element and the bytes from row to row.

    ``form`` has the bits TRANS_A and TRANS_B.
    """
    trans_a, trans_b = form >= TRANS_A, form % TRANS_A == TRANS_B
    panels, edge, packed = stack_floats(PANELS_SIZE), stack_floats(TILE_SIZE), stack_floats(LEFT_SIZE)
    row_step, k_step = (ITEM, left_step) if trans_a else (left_step, ITEM)
    right_step, column_step = (ITEM, given_right_step) if trans_b else (given_right_step, ITEM)
    depth, copies_left = depth_of(k), n >= (4 * PANEL if trans_a else LEAST_COLUMNS_TO_COPY_FOR)
    for first in range(0, m, ROW_BLOCK):
        num_rows = min(ROW_BLOCK, m - first)
        for k0 in range(0, k, depth):
            count = min(depth, k - k0)
            scale = beta if k0 == 0 else ONE
            left_at = left + first * row_step + k0 * k_step
            copies_right = column_step == ITEM and num_rows >= LEAST_ROWS_TO_COPY_FOR
            group_step, tile_row_step, tile_k_step = TILE_ROWS * row_step, row_step, k_step
            if copies_left:
                if trans_a:
                    _copy_left(packed, left_at, k_step, num_rows, count)
                else:
                    transpose_left(packed, left_at, row_step, num_rows, count)
                left_at, group_step, tile_row_step, tile_k_step = packed, GROUP_SIZE * ITEM, ITEM, TILE_ROWS * ITEM
            j0 = 0
            while j0 < n:
                width = panel_width(n - j0)
                place = panels + j0 // PANEL % PANELS * PANEL_SIZE * ITEM
                right_at = right + k0 * right_step + j0 * column_step
                if copies_right and j0 // PANEL % PANELS == 0:
                    _copy_panels(place, right_at, right_step, count, min(PANELS, (n - j0) // PANEL))
                if copies_right and width == PANEL:
                    rows_at, rows_step = place, PANEL * ITEM
                else:
                    rows_at, rows_step = panel_of_right(place, right_at, right_step, column_step, count, width,
                                                        -(-width // VECTOR), num_rows)
                result_at = result + first * result_step + j0 * ITEM
                _multiply_panel(num_rows, width, count, left_at, group_step, tile_row_step, tile_k_step, rows_at,
                                rows_step, result_at, result_step, edge, alpha, scale)
                j0 += width


@inline
def _multiply_panel(num_rows, width, count, left, group_step, row_step, k_step, right, right_step, result, result_step,
                    edge, alpha, beta):
    """Compute the tiles of ``num_rows`` rows in one panel; tiles are ``group_step`` bytes apart in ``left``.

    ``edge`` is work space for tiles of less than whole vectors. Addresses and steps are in bytes.
    """
    vectors, i0 = -(-width // VECTOR), 0
    edge_step, whole = PANEL * ITEM, width == vectors * VECTOR
    while i0 < num_rows:
        rows = next_rows(num_rows - i0)
        left_at = left + i0 // TILE_ROWS * group_step + i0 % TILE_ROWS * row_step
        result_at = result + i0 * result_step
        if whole:
            tile(rows, vectors, count, left_at, row_step, k_step, right, right_step, result_at, result_step, result_at,
                 result_step, alpha, beta)
        else:
            _copy_rows(edge, edge_step, result_at, result_step, rows, width)
            tile(rows, vectors, count, left_at, row_step, k_step, right, right_step, edge, edge_step, edge, edge_step,
                 alpha, beta)
            _copy_rows(result_at, result_step, edge, edge_step, rows, width)
        i0 += rows


_MULTIPLY_KINDS = (types.intp,) * 9 + (types.float32,) * 2 + (types.intp,)
_call_multiply: Any = c_function(interface.MULTIPLY, _MULTIPLY_KINDS)


@inline
def multiply(dst, a, b, alpha, beta, trans_a, trans_b):
    """Compute ``dst = alpha op(a) op(b) + beta dst`` with one thread; no dimension may be 0."""
    m, n = dst.shape
    k = a.shape[0] if trans_a else a.shape[1]
    _call_multiply(address(dst), dst.strides[0], address(a), a.strides[0], address(b), b.strides[0], m, n, k, alpha,
                   beta, (TRANS_A if trans_a else 0) + (TRANS_B if trans_b else 0))


def make_multiply() -> Code:
    """Compile :func:`_multiply` as the C function ``interface.MULTIPLY``."""
    return compiling.make_c_function(_multiply, _MULTIPLY_KINDS)
