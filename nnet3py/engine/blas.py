"""Products of matrices by scipy's ``sgemm``, called from compiled code; ``product_rule.py`` decides when it is used."""
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from nnet3py.engine import interface
from nnet3py.engine.jit import inline
from nnet3py.engine.product_rule import LARGE, RULE, SGEMM, integer_bits

# A product is computed in pieces of at most so many rows and columns. BLAS may sum in another order for other shapes,
# and then results would depend on how threads share a product.
PIECE = 256
_I64, _INT = ir.IntType(64), ir.IntType(integer_bits())
_N, _T = ir.Constant(ir.IntType(8), ord("N")), ir.Constant(ir.IntType(8), ord("T"))


def _word(context: Any, builder: Any, index: int) -> Any:
    """Write LLVM code that loads ``product_rule.words[index]``."""
    memory = context.get_c_value(builder, _I64, interface.PRODUCTS)
    return builder.load(builder.gep(memory, [ir.Constant(_I64, index)]))


def _rule(typingctx):
    """Return the current rule of ``product_rule.py``."""
    def codegen(context, builder, signature, args):
        return _word(context, builder, RULE)

    return types.intp(), codegen


def _sgemm(typingctx, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """Call BLAS's ``sgemm`` on column-major matrices: ``c = alpha op(a) op(b) + beta c``.

    trans_a, trans_b : boolean;  m, n, k, lda, ldb, ldc : intp;  alpha, beta : float32;  a, b, c : float32 arrays, of
    which only the address of the first element is used.
    """
    signature = types.void(types.boolean, types.boolean, types.intp, types.intp, types.intp, types.float32,
                           a, types.intp, b, types.intp, types.float32, c, types.intp)

    def codegen(context, builder, signature, args):
        def pointer(value):
            slot = cgutils.alloca_once_value(builder, value)
            return builder.bitcast(slot, cgutils.voidptr_t)

        def convert(kind, value):
            if isinstance(kind, types.Array):
                data = context.make_array(kind)(context, builder, value).data
                return builder.bitcast(data, cgutils.voidptr_t)
            if kind == types.boolean:
                flag = builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
                return pointer(builder.select(flag, _T, _N))
            if kind == types.intp and value.type.width > _INT.width:
                return pointer(builder.trunc(value, _INT))
            return pointer(value)

        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t] * len(args))
        function = builder.inttoptr(_word(context, builder, SGEMM), function_type.as_pointer())
        builder.call(function, [convert(kind, value) for kind, value in zip(signature.args, args, strict=True)])
        return context.get_dummy_value()

    return signature, codegen


sgemm: Any = intrinsic(_sgemm)
rule: Any = intrinsic(_rule)


@inline
def is_for_blas(m, n, k, trans_a, trans_b):
    """Return whether BLAS computes a product of op(a) (m x k) and op(b) (k x n), by the current rule."""
    size = 1 if min(m, n, k) >= LARGE else 0
    form = (2 if trans_a else 0) + (1 if trans_b else 0)
    return (rule() >> (2 * form + size)) & 1 == 1


@inline
def _leading_dim(matrix):
    """Return the leading dimension: the number of elements from one row to the next, at least that of columns."""
    stride = matrix.strides[0] // matrix.itemsize
    return max(stride if matrix.shape[0] > 1 else 0, matrix.shape[1], 1)


@inline
def _multiply_piece(dst, a, b, alpha, beta, trans_a, trans_b):
    m, n = dst.shape
    k = a.shape[0] if trans_a else a.shape[1]
    # A row-major matrix is the transpose of a column-major one, so BLAS computes dst' = op(b)' op(a)'.
    sgemm(trans_b, trans_a, n, m, k, alpha, b, _leading_dim(b), a, _leading_dim(a), beta, dst, _leading_dim(dst))


@inline
def multiply(dst, a, b, alpha, beta, trans_a, trans_b):
    """Compute ``dst = alpha op(a) op(b) + beta dst`` with one thread; no dimension may be 0."""
    m, n = dst.shape
    for i in range(0, m, PIECE):
        last_row = min(i + PIECE, m)
        left = a[:, i:last_row] if trans_a else a[i:last_row]
        for j in range(0, n, PIECE):
            last = min(j + PIECE, n)
            right = b[j:last] if trans_b else b[:, j:last]
            _multiply_piece(dst[i:last_row, j:last], left, right, alpha, beta, trans_a, trans_b)
