"""Layers of one component, or of a few without parameters: normalization, linear maps, selections, differences."""
from __future__ import annotations

from nnet3py.config_line import is_valid_name
from nnet3py.xconfig.layer import EVERYWHERE, NETWORK, ConfigLines, Layer

LARGEST_MAP = 1_000_000      # columns that are listed one by one


class SameDimLayer(Layer):
    """A component with the layer's name, with as many columns as its input."""

    COMPONENT = "NoOpComponent"
    SETTINGS: tuple[str, ...] = ()      # options that the config line repeats

    def output_dim(self) -> int:
        return self.input_dim

    def build(self, lines: ConfigLines) -> None:
        separator = " " if self.SETTINGS else ""
        in_init = self.values.get("include-in-init") is True
        lines.step(self.name, self.COMPONENT, f"dim={self.input_dim}{separator}{self.pairs(*self.SETTINGS)}",
                   self.input, EVERYWHERE if in_init else NETWORK)


class NoOpLayer(SameDimLayer):
    """``no-op-component``: a copy, such as of an Append that several layers take."""

    OPTIONS = {"input": "[-1]"}


class RenormLayer(SameDimLayer):
    """``renorm-component``: each frame scaled to a given root mean square."""

    OPTIONS = {"input": "[-1]", "target-rms": 1.0}
    COMPONENT, SETTINGS = "NormalizeComponent", ("target-rms",)

    def derive(self) -> None:
        self.need_positive("target-rms")


class BatchNormLayer(RenormLayer):
    """``batchnorm-component``: each column brought to mean zero and a given root mean square."""

    OPTIONS = {"input": "[-1]", "target-rms": 1.0, "include-in-init": False}
    COMPONENT = "BatchNormComponent"


class PerElementLayer(SameDimLayer):
    """``scale-component`` and ``offset-component``: a trained factor or summand for each column."""

    OPTIONS = {"input": "[-1]", "l2-regularize": "", "max-change": 0.75, "param-mean": "", "param-stddev": "",
               "learning-rate-factor": ""}
    SETTINGS = ("l2-regularize", "max-change", "param-mean", "param-stddev", "learning-rate-factor")

    def build(self, lines: ConfigLines) -> None:
        component = {"scale-component": "NaturalGradientPerElementScaleComponent",
                     "offset-component": "PerElementOffsetComponent"}[self.type]
        lines.step(self.name, component, f"dim={self.input_dim}  {self.pairs(*self.SETTINGS)}", self.input)


class LinearLayer(Layer):
    """``linear-component``: a matrix without an offset."""

    OPTIONS = {"input": "[-1]", "dim": -1, "orthonormal-constraint": "", "max-change": 0.75, "l2-regularize": "",
               "param-stddev": "", "learning-rate-factor": ""}
    COMPONENT = "LinearComponent"
    SETTINGS: tuple[str, ...] = ("orthonormal-constraint", "max-change", "l2-regularize", "param-stddev",
                                 "learning-rate-factor")

    def build(self, lines: ConfigLines) -> None:
        lines.step(self.name, self.COMPONENT, f"input-dim={self.input_dim} output-dim={self.integer('dim')}  "
                   f"{self.pairs(*self.SETTINGS)}", self.input)


class AffineComponentLayer(LinearLayer):
    """``affine-component``: a matrix and an offset."""

    OPTIONS = {"input": "[-1]", "dim": -1, "orthonormal-constraint": "", "max-change": 0.75, "param-stddev": "",
               "bias-stddev": "", "l2-regularize": ""}
    COMPONENT = "NaturalGradientAffineComponent"
    SETTINGS = ("orthonormal-constraint", "max-change", "param-stddev", "bias-stddev", "l2-regularize")


class DimRangeLayer(Layer):
    """``dim-range-component``: some of the input's columns."""

    OPTIONS = {"input": "[-1]", "dim": -1, "dim-offset": 0}

    def derive(self) -> None:
        dim, offset = self.integer("dim"), self.integer("dim-offset")
        self.need(offset >= 0 and offset + dim <= self.input_dim,
                  f"columns {offset} to {offset + dim - 1} are not among the input's {self.input_dim}")
        self.need(is_valid_name(self.input), f"the input must be one layer, found {self.input}",
                  "put a no-op-component before it")

    def build(self, lines: ConfigLines) -> None:
        lines.add(f"dim-range-node name={self.name} input-node={self.input} {self.pairs('dim', 'dim-offset')}")


class CombineFeatureMapsLayer(Layer):
    """``combine-feature-maps-layer``: appended images (height by filters) become one with all their filters."""

    OPTIONS = {"input": "[-1]", "num-filters1": -1, "num-filters2": -1, "num-filters3": 0, "height": -1}

    def derive(self) -> None:
        self.need_positive("num-filters1", "num-filters2", "height")
        self.need_within(0, LARGEST_MAP, "num-filters3")
        filters = self._filters()
        self.need(sum(filters) * self.integer("height") == self.input_dim,
                  f"expected height {self.integer('height')} times {' + '.join(map(str, filters))} filters, found an "
                  f"input of {self.input_dim}")
        self.need(self.input_dim <= LARGEST_MAP, f"an input of more than {LARGEST_MAP} columns")

    def _filters(self) -> list[int]:
        return [self.integer(f"num-filters{n}") for n in (1, 2, 3)]

    def output_dim(self) -> int:
        return self.input_dim

    def build(self, lines: ConfigLines) -> None:
        height = self.integer("height")
        columns: list[int] = []
        for h in range(height):
            begin = 0
            for filters in self._filters():
                columns += range(begin + h * filters, begin + (h + 1) * filters)
                begin += height * filters
        lines.step(self.name, "PermuteComponent", f"column-map={','.join(map(str, columns))}", self.input)


class ChannelAverageLayer(Layer):
    """``channel-average-layer``: the mean of blocks of ``dim`` columns."""

    OPTIONS = {"input": "[-1]", "dim": -1}
    DIM_FROM_INPUT = False

    def derive(self) -> None:
        self.need_positive("dim")
        self.need(self.input_dim % self.integer("dim") == 0,
                  f"the input's dimension {self.input_dim} is not a multiple of dim={self.integer('dim')}")

    def build(self, lines: ConfigLines) -> None:
        dim = self.integer("dim")
        lines.step(self.name, "SumBlockComponent",
                   f"input-dim={self.input_dim} output-dim={dim} scale={dim / self.input_dim}", self.input)


class DeltaLayer(Layer):
    """``delta-layer``: the input with first and second differences over time, normalized."""

    OPTIONS = {"input": "[-1]"}

    def derive(self) -> None:
        self.need(is_valid_name(self.input), f"the input must be one layer, found {self.input}",
                  "put a no-op-component before it")

    def output_dim(self) -> int:
        return 3 * self.input_dim

    def build(self, lines: ConfigLines) -> None:
        x, dim = self.input, self.input_dim
        # One descriptor may scale a node only one way, so each scale gets a copy of the input.
        first, second = f"{x}_copy1", f"{x}_copy2"
        for copy in (first, second):
            lines.add(f"dim-range-node name={copy} input-node={x} dim={dim} dim-offset=0")
        differences = lines.step(
            f"{x}_2", "NoOpComponent", f"dim={3 * dim}",
            f"Append(Offset({x},0), Sum(Offset(Scale(-1.0,{first}),-1), Offset({x},1)), "
            f"Sum(Offset({x},-2), Offset({x},2), Offset(Scale(-2.0,{second}),0)))")
        lines.step(self.name, "BatchNormComponent", f"dim={3 * dim}", differences)
