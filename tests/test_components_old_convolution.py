"""Pnorm, the old 2-D convolution and max pooling: values, files and config lines."""
from __future__ import annotations

import numpy as np
import pytest
from component_cases import from_config, normal, read_text, reread, written

from nnet3py.components.old_convolution import ConvolutionComponent, FilterShape, MaxpoolingComponent, PoolShape
from nnet3py.components.structural import PnormComponent
from nnet3py.errors import ConfigError, FormatError
from nnet3py.formats.matrices import write_matrix
from nnet3py.io.object_files import write_object

FLOAT32 = 1e-5      # sums of up to 12 products
CONVOLUTION = ("input-x-dim=5 input-y-dim=4 input-z-dim=2 filt-x-dim=3 filt-y-dim=2 filt-x-step=2 filt-y-step=1 "
               "num-filters=3")
POOLING = ("input-x-dim=5 input-y-dim=4 input-z-dim=2 pool-x-size=3 pool-y-size=2 pool-z-size=1 pool-x-step=2 "
           "pool-y-step=1 pool-z-step=1")


@pytest.mark.parametrize("order", ["zyx", "yzx"])
def test_convolution(order, ops):
    component, x = from_config(ConvolutionComponent, f"{CONVOLUTION} input-vectorization-order={order}"), normal(4, 40)
    assert (component.input_dim, component.output_dim) == (40, 2 * 3 * 3)
    tensor = x.reshape(4, 5, 4, 2) if order == "zyx" else x.reshape(4, 5, 2, 4).transpose(0, 1, 3, 2)
    filters, y = component.filter_params.reshape(3, 3, 2, 2), np.ones((4, 18), np.float32)
    component.propagate(ops, None, x, y, None)
    for i in range(2):
        for j in range(3):
            patch = tensor[:, 2 * i:2 * i + 3, j:j + 2]
            expected = np.einsum("nxyz,fxyz->nf", patch, filters) + component.bias_params + 1
            np.testing.assert_allclose(y[:, (3 * i + j) * 3:(3 * i + j + 1) * 3], expected, atol=FLOAT32)


def test_max_pooling(ops):
    component, x = from_config(MaxpoolingComponent, POOLING), normal(4, 40)
    assert (component.input_dim, component.output_dim) == (40, 2 * 3 * 2)
    y, tensor = np.zeros((4, 12), np.float32), x.reshape(4, 5, 4, 2)
    component.propagate(ops, None, x, y, None)
    expected = [tensor[:, 2 * i:2 * i + 3, j:j + 2, k].max(axis=(1, 2)) for i in range(2) for j in range(3)
                for k in range(2)]
    np.testing.assert_array_equal(y, np.stack(expected, axis=1))


def test_every_tied_maximum_gets_the_whole_derivative(ops):
    component = MaxpoolingComponent(PoolShape(2, 1, 2, 2, 1, 1, 1, 1, 1))
    x, dy = np.array([[3, 1, 3, 2]], np.float32), np.array([[0.5, 7]], np.float32)
    dx = np.ones_like(x)
    component.backprop(ops, None, x, np.array([[3, 2]], np.float32), dy, None, None, dx)
    assert dx.tolist() == [[1.5, 1, 1.5, 8]]


def test_pnorm_of_zeros(ops):
    component, x = PnormComponent(4, 2), np.array([[0, 0, 3, -4]], np.float32)
    y, dx = np.full((1, 2), np.nan, np.float32), np.full((1, 4), np.nan, np.float32)
    component.propagate(ops, None, x, y, None)
    component.backprop(ops, None, x, y, np.array([[5, 10]], np.float32), None, None, dx)
    assert y.tolist() == [[0, 5]]
    np.testing.assert_allclose(dx, [[0, 0, 6, -8]], atol=FLOAT32)


@pytest.mark.parametrize("binary", [True, False])
def test_the_mark_of_a_gradient(binary):
    """It is written twice; the one at the end counts, and may be missing in older files."""
    component = from_config(ConvolutionComponent, CONVOLUTION)
    component.set_as_gradient()
    data = written(component, binary)
    assert data.count(b"<IsGradient>") == 2 and reread(component, binary).is_gradient
    text = written(component, False).decode()
    assert not read_text(ConvolutionComponent, text.replace("<IsGradient> T </", "</")).is_gradient


@pytest.mark.parametrize(("old", "new", "message"), [
    ("<InputXDim> 5", "<InputXDim> 2", "larger than the input"),
    ("<InputXDim> 5", "<InputXDim> 0", "between 1 and"),
    ("<InputXDim> 5", "<InputXDim> 9999999", "more than"),
    ("<FiltXDim>", "<FilterXDim>", "expected <FiltXDim>, found .<FilterXDim>"),
    ("<FiltXDim> 3", "<FiltXDim> 4", "filters of 16 elements"),
    ("<FiltXStep> 2", "<FiltXStep> -2", "between 1 and"),
    ("<InputVectorization> 1", "<InputVectorization> 2", "InputVectorization"),
    ("<IsGradient> F ", "<IsMatrix> F ", "expected </ConvolutionComponent>, found '<IsMatrix>'"),
    ("[ 1 1 1 ]", "[ 1 1 ]", "3 x 12 and 2 biases"),
    ("<LearningRate> 0.001 ", "", "expected <LearningRate>")])
def test_damaged_convolutions(old, new, message):
    component = from_config(ConvolutionComponent, CONVOLUTION)
    component.bias_params[:] = 1
    text = written(component, False).decode()
    assert old in text
    with pytest.raises(FormatError, match=message):
        read_text(ConvolutionComponent, text.replace(old, new))


@pytest.mark.parametrize(("old", "new", "message"), [
    ("<PoolXSize> 3", "<PoolXSize> 6", "larger than the input"),
    ("<PoolXStep> 2", "<PoolXStep> 4", "not larger than the pool"),
    ("<PoolYStep> 1", "<PoolYStep> 0", "between 1 and"),
    ("<PoolZSize>", "<PoolZStep>", "expected <PoolZSize>"),
    ("<InputZDim> 2", "<InputZDim> 9999999", "more than")])
def test_damaged_poolings(old, new, message):
    text = written(from_config(MaxpoolingComponent, POOLING), False).decode()
    assert old in text
    with pytest.raises(FormatError, match=message):
        read_text(MaxpoolingComponent, text.replace(old, new))


def test_a_small_file_of_a_large_convolution_takes_little_memory():
    """Nothing is made for each place that a filter takes."""
    import tracemalloc

    component = ConvolutionComponent(FilterShape(1 << 23, 1, 2, 1, 1, 1, 1), "yzx", normal(1, 2), normal(1))
    data = written(component, False).decode()
    tracemalloc.start()
    again = read_text(ConvolutionComponent, data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert again.output_dim == 1 << 23


def test_damaged_pnorm():
    with pytest.raises(FormatError, match="divides the input dimension 6"):
        read_text(PnormComponent, "<InputDim> 6 <OutputDim> 4 </PnormComponent> ")


def test_convolution_config(tmp_path):
    component = from_config(ConvolutionComponent, "input-x-dim=40 input-y-dim=5 input-z-dim=5 filt-x-dim=20 "
                            "filt-y-dim=5 filt-x-step=1 filt-y-step=1 num-filters=400 l2-regularize=0.5")
    assert component.order == "zyx" and component.l2_regularize == 0.5
    # 200000 and 400 normal numbers: their standard deviations are known to 0.2 and 3.5 per cent
    assert component.filter_params.std() == pytest.approx(1 / np.sqrt(20 * 5 * 5), rel=0.01)
    assert component.bias_params.std() == pytest.approx(1, rel=0.15)
    component = from_config(ConvolutionComponent, f"{CONVOLUTION} param-stddev=0 bias-stddev=0 learning-rate=0.5")
    assert not component.filter_params.any() and not component.bias_params.any() and component.learning_rate == 0.5
    matrix, path = normal(4, 13), str(tmp_path / "filters")
    write_object(path, lambda writer: write_matrix(writer, matrix), binary=True)
    shape = CONVOLUTION.replace("num-filters=3", "")
    component = from_config(ConvolutionComponent, f"{shape} matrix={path}")
    np.testing.assert_array_equal(component.filter_params, matrix[:, :-1])
    np.testing.assert_array_equal(component.bias_params, matrix[:, -1])
    with pytest.raises(ConfigError, match="num-filters"):
        from_config(ConvolutionComponent, f"{CONVOLUTION} matrix={path}")
    with pytest.raises(ConfigError, match="4 x 13, expected 9 columns"):
        from_config(ConvolutionComponent, f"{shape.replace('filt-x-dim=3', 'filt-x-dim=2')} matrix={path}")
