"""Of every form of every component type: files, scaling, adding, copies, information and keys of config lines."""
from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from component_cases import CASES, assert_same_info, info_lines, read_components, reread, written
from component_forms import FORM_NAMES, FORMS, Pass, arrays, in_float64, make, make_trained, parts, row_patterns
from numpy_ops import NumpyOps

from nnet3py.components.base import Component, Properties
from nnet3py.components.registry import PRECOMPUTED_MODULES, PRECOMPUTED_SUFFIX, precomputed_indexes_class
from nnet3py.errors import ConfigError
from nnet3py.io.tokens import TokenReader, TokenWriter
from nnet3py.network.nnet import Nnet

ROUNDING = 1e-6      # float32, relative: parameters are kept exactly, but statistics as averages
EVERY_FORM = pytest.mark.parametrize(("type_name", "line"), FORMS, ids=FORM_NAMES)

# Kaldi's information text of these says what the tensors are, not how many columns that makes.
WITHOUT_DIMS = {"MaxpoolingComponent"}
# Kaldi counts in whole numbers here, and adds and scales only some of them.
WHOLE_COUNTERS = {"ClipGradientComponent"}


def used(type_name: str, line: str) -> Component:
    """The form after two passes that changed its parameters and statistics, as far as it has any."""
    component = make_trained(type_name, line)
    run = Pass(NumpyOps(), component, row_patterns(component)[0])
    for seed in range(2):
        x, dy = run.inputs(np.float32, seed), run.outputs(np.float32, seed + 5)
        y = run.forward(x, np.zeros_like(dy))
        if component.has(Properties.STORES_STATS):
            component.store_stats(run.ops, x, y, run.memo)
        run.backward(x, y, dy, np.zeros_like(x), component)
    if component.has(Properties.UPDATABLE):
        component.learning_rate_factor, component.max_change, component.l2_regularize = 2.0, 0.75, 0.25
        component.is_gradient = True
    return component


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
@EVERY_FORM
def test_files(type_name, line, binary):
    """What is written, read and written again has the same bytes."""
    for component in (make(type_name, line), used(type_name, line)):
        data = written(component, binary)
        assert data.startswith(f"<{type_name}> ".encode()) and f"</{type_name}>".encode() in data[-60:]
        again = reread(component, binary)
        assert type(again) is type(component)
        assert written(again, binary) == data
        assert (again.input_dim, again.output_dim) == (component.input_dim, component.output_dim)
        assert again.properties == component.properties
        assert again.info() == component.info() or not binary       # text has fewer digits


class DoubleWriter(TokenWriter):
    """Writes as a Kaldi that computes in double precision."""

    def float32(self, value: float) -> None:
        self.float64(value)


@EVERY_FORM
def test_files_in_double_precision(type_name, line):
    """Numbers, vectors and matrices of 64 bits are read as well."""
    component, stream = make_trained(type_name, line), io.BytesIO()
    in_float64(component).write(DoubleWriter(stream, True))
    data = b"\0B" + stream.getvalue()
    reader = TokenReader(io.BytesIO(data), size=len(data))
    reader.read_header()
    assert reader.token() == f"<{type_name}>"
    again = type(component).read(reader)
    assert written(again, True) == written(component, True) and reader.at_end()


@EVERY_FORM
def test_text_and_binary_say_the_same(type_name, line):
    component = used(type_name, line)
    assert written(reread(component, True), False) == written(component, False)


@EVERY_FORM
def test_a_file_computes_the_same(type_name, line):
    component = make_trained(type_name, line)
    again = reread(component)
    for rows in row_patterns(component):
        one, other = Pass(NumpyOps(), component, rows), Pass(NumpyOps(), again, rows)
        x, y = one.inputs(np.float32), np.zeros_like(one.outputs(np.float32))
        np.testing.assert_allclose(other.forward(x, y.copy()), one.forward(x, y.copy()), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
@EVERY_FORM
def test_files_of_precomputed_indexes(type_name, line, binary):
    """What the registry says has a class; its files keep their bytes, and what is read computes the same."""
    component = make_trained(type_name, line)
    name = type_name + PRECOMPUTED_SUFFIX
    for rows in row_patterns(component):
        assert (rows.indexes is not None) == (name in PRECOMPUTED_MODULES)
        if rows.indexes is None:
            continue
        assert type(rows.indexes) is precomputed_indexes_class(name)
        data = written(rows.indexes, binary)
        assert data.startswith(f"<{name}> ".encode())
        again = replace(rows, indexes=reread(rows.indexes, binary))
        assert written(again.indexes, binary) == data
        one, other = Pass(NumpyOps(), component, rows), Pass(NumpyOps(), component, again)
        x, dy, y = one.inputs(np.float32), one.outputs(np.float32), np.zeros_like(one.outputs(np.float32))
        np.testing.assert_array_equal(other.forward(x, y.copy()), one.forward(x, y))
        found, wanted = (run.backward(x, y, dy, np.zeros_like(x)) for run in (other, one))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_kaldis_files_are_written_back_alike(case):
    for path in [*sorted((CASES / case).glob("*.raw")), *(CASES / case).glob("nnet.txt")]:
        binary = path.suffix == ".raw"
        for key, (component, data) in read_components(path).items():
            assert written(component, binary) == data, f"{path} {key}"
            assert written(reread(component, binary), binary) == data, f"{path} {key}"
    for key, expected in info_lines(case).items() if (CASES / case / "info.txt").exists() else ():
        assert_same_info(read_components(CASES / case / "nnet.raw")[key][0].info(), expected)


@EVERY_FORM
def test_scaling_by_zero(type_name, line):
    """Zeros, even of what is not finite, in parameters and statistics."""
    component = used(type_name, line)
    for value in arrays(component).values():
        value.flat[:1] = np.nan
    component.scale(0.0)
    for name, value in arrays(component).items():
        if type_name in WHOLE_COUNTERS:
            value = value[:2]
        assert not value.any(), name


@EVERY_FORM
def test_scaling_and_adding(type_name, line):
    one, other = used(type_name, line), make_trained(type_name, line, seed=3)
    before = {name: value.copy() for name, value in arrays(one).items()}
    one.scale(2.0)
    one.add(-3.0, other)
    for (name, value), add in zip(arrays(one).items(), arrays(other).values(), strict=True):
        expected = 2 * before[name] - 3 * add
        if type_name in WHOLE_COUNTERS:
            value, expected = value[:2], expected[:2]
        np.testing.assert_allclose(value, expected, rtol=ROUNDING, atol=10 * ROUNDING, err_msg=name)


@EVERY_FORM
def test_statistics_are_set_to_zero(type_name, line):
    component = used(type_name, line)
    before = component.vectorize() if component.has(Properties.UPDATABLE) else np.zeros(0)
    component.zero_stats()
    for part in parts(component) if not getattr(component, "test_mode", False) else ():
        assert not any(getattr(part, name).any() for name in part.STATISTICS)
    if len(before):
        np.testing.assert_array_equal(component.vectorize(), before)


@EVERY_FORM
def test_a_copy_is_independent(type_name, line):
    component = used(type_name, line)
    data, copy = written(component, True), component.copy()
    assert written(copy, True) == data
    for value in arrays(copy).values():
        value += 1
    copy.scale(3.0)
    if copy.has(Properties.UPDATABLE):
        copy.set_as_gradient()
    assert written(component, True) == data


@EVERY_FORM
def test_parameters_as_one_vector(type_name, line):
    component = make_trained(type_name, line)
    if not component.has(Properties.UPDATABLE):
        assert component.num_parameters() == 0
        return
    vector = component.vectorize()
    assert vector.dtype == np.float32 and vector.size == component.num_parameters() > 0
    assert component.dot_product(component) == pytest.approx(float(np.vdot(vector, vector)), rel=ROUNDING)
    data = written(component, True)
    component.scale(0.0)
    component.unvectorize(vector)
    assert written(component, True) == data


@EVERY_FORM
def test_information_has_every_dimension(type_name, line):
    component = make(type_name, line)
    info = component.info()
    assert info.startswith((f"{type_name}, ", f"{type_name} sub-component1 = ")) and "\n" not in info
    numbers = set(re.findall(r"=(\d+)\b", info))
    asked = set(re.findall(r"dim=(\d+)\b", line))
    wanted = asked if type_name in WITHOUT_DIMS else {*asked, str(component.input_dim), str(component.output_dim)}
    assert wanted <= numbers, info


@EVERY_FORM
def test_a_key_that_does_not_exist(type_name, line):
    with pytest.raises(ConfigError, match="no-such-key"):
        Nnet.from_config(f"component name=c type={type_name} {line} no-such-key=1\n")


@EVERY_FORM
def test_a_config_line_without_its_keys(type_name, line):
    """Every type has something that must be given."""
    with pytest.raises(ConfigError):
        make(type_name, "")
