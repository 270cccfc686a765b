"""Additions with a factor that lies on the device, on the GPU: no number goes to the host."""
from __future__ import annotations

from nnet3py.ops.arrays import DeviceArray
from nnet3py.ops.cuda.column_sums import total
from nnet3py.ops.cuda.each_element import add_row, first_row, launch_elements, row_distance
from nnet3py.ops.cuda.launch import kernel, operation
from nnet3py.ops.cuda.products import add_mat_mat_times
from nnet3py.ops.cuda.reductions import sum_of_values
from nnet3py.ops.cuda.threads import own_columns, own_rows, row
from nnet3py.ops.formulas.natural_gradient import ZERO
from nnet3py.ops.table import documented


@operation(shape=launch_elements)
def add_mat_by(dst, src, factor):
    if factor[0] == ZERO:
        return
    i, step = first_row(), row_distance()
    while i < dst.shape[0]:
        add_row(row(dst, i), row(src, i), factor[0])
        i += step


@kernel("vec mat vec")
def _add_sums(dst, parts, factor):
    for _ in own_rows(1):
        for j in own_columns(dst.shape[0]):
            if factor[0] != ZERO:
                dst[j] += factor[0] * total(parts, 0, parts.shape[0], j)


@documented
def add_row_sum_by(dst: DeviceArray, src: DeviceArray, factor: DeviceArray) -> None:
    _add_sums(dst, sum_of_values.of(src), factor)


@documented
def add_mat_mat_by(dst: DeviceArray, a: DeviceArray, b: DeviceArray, factor: DeviceArray) -> None:
    add_mat_mat_times(dst, a, b, factor, True, False)
