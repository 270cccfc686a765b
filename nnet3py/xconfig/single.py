"""Layers of a single component or of a few without parameters, and transforms and masks of features."""
from __future__ import annotations

import math

from nnet3py.config_line import is_valid_name
from nnet3py.xconfig.layer import EVERYWHERE, INITIAL, NETWORK, ConfigLines, Layer

LARGEST_MAP = 1_000_000      # columns that are listed one by one


class SameDimLayer(Layer):
    """Component with the layer's name and as many columns as its input."""

    COMPONENT = "NoOpComponent"
    SETTINGS: tuple[str, ...] = ()      # options that are copied to the config line

    def build(self, lines: ConfigLines) -> None:
        separator = " " if self.SETTINGS else ""
        in_init = self.values.get("include-in-init") is True
        lines.step(self.name, self.COMPONENT, f"dim={self.input_dim}{separator}{self.pairs(*self.SETTINGS)}",
                   self.input, EVERYWHERE if in_init else NETWORK)


class NoOpLayer(SameDimLayer):
    """``no-op-component``: copy of the input, for example of an Append() that several layers read."""

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
    """``combine-feature-maps-layer``: appended images (height by filters) as one image with all their filters."""

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
        # A descriptor may take a node with one scale only, so each scale gets a copy of the input.
        first, second = f"{x}_copy1", f"{x}_copy2"
        for copy in (first, second):
            lines.add(f"dim-range-node name={copy} input-node={x} dim={dim} dim-offset=0")
        differences = lines.step(
            f"{x}_2", "NoOpComponent", f"dim={3 * dim}",
            f"Append(Offset({x},0), Sum(Offset(Scale(-1.0,{first}),-1), Offset({x},1)), "
            f"Sum(Offset({x},-2), Offset({x},2), Offset(Scale(-2.0,{second}),0)))")
        lines.step(self.name, "BatchNormComponent", f"dim={3 * dim}", differences)


LARGEST_COSINE_TRANSFORM = 2000      # rows; the matrix is written as text


class FixedAffineLayer(Layer):
    """``fixed-affine-layer``: a transform estimated from the data, such as LDA, whose matrix is in a file."""

    OPTIONS = {"input": "[-1]", "dim": -1, "affine-transform-file": "", "delay": 0, "write-init-config": True}

    def derive(self) -> None:
        self.need(self.string("affine-transform-file") != "", f"{self.type} needs affine-transform-file=")

    def build(self, lines: ConfigLines) -> None:
        if self.flag("write-init-config"):
            self._add_initial_output(lines)
        lines.component(self.name, "FixedAffineComponent", f"matrix={self.string('affine-transform-file')}", ("final",))
        lines.component(self.name, "FixedAffineComponent",
                        f"input-dim={self.input_dim} output-dim={self.integer('dim')}", ("ref",))
        lines.node(self.name, self.name, self.input)

    def _add_initial_output(self, lines: ConfigLines) -> None:
        """Append the output of the initial network, from which the transform is estimated, at this layer's input."""
        source, delay = self.input, self.integer("delay")
        if delay:
            source = lines.step(self.at("delayed"), "NoOpComponent", f"dim={self.input_dim}", source, INITIAL)
            source = f"Offset({source}, {delay})"
        lines.add(f"output-node name=output input={source}", INITIAL)


class AffineLayer(Layer):
    """``affine-layer``: trained affine transform and nothing else."""

    OPTIONS = {"input": "[-1]", "dim": -1, "param-stddev": -1.0, "bias-stddev": 1.0, "bias-mean": 0.0,
               "max-change": 0.75, "l2-regularize": 0.0, "learning-rate-factor": 1.0, "ng-affine-options": ""}

    def derive(self) -> None:
        if self.number("param-stddev") < 0:
            self.values["param-stddev"] = 1.0 / math.sqrt(self.input_dim)
        self.need_within(0.0, math.inf, "bias-stddev", "max-change", "learning-rate-factor", "l2-regularize")

    def build(self, lines: ConfigLines) -> None:
        # Kaldi puts no blank before these options, so only those that begin with one work there.
        options = self.string("ng-affine-options")
        separator = " " if options.strip() == options and options else ""
        settings = self.pairs("param-stddev", "bias-stddev", "bias-mean", "max-change", "l2-regularize")
        lines.step(self.name, "NaturalGradientAffineComponent",
                   f"input-dim={self.input_dim} output-dim={self.integer('dim')} {settings}{separator}{options}",
                   self.input)


class IdctLayer(Layer):
    """``idct-layer``: inverse cosine transform from cepstra to log filterbank energies, whose matrix is made here."""

    OPTIONS = {"input": "[-1]", "dim": -1, "cepstral-lifter": 22.0, "affine-transform-file": "",
               "include-in-init": False}

    def derive(self) -> None:
        self.need(self.string("affine-transform-file") != "",
                  f"{self.type} needs affine-transform-file=, which will be written")
        self.need(self.integer("dim") <= LARGEST_COSINE_TRANSFORM and self.input_dim <= LARGEST_COSINE_TRANSFORM,
                  f"more than {LARGEST_COSINE_TRANSFORM} dimensions")

    def build(self, lines: ConfigLines) -> None:
        path = self.string("affine-transform-file")
        lifter = lifter_coefficients(self.number("cepstral-lifter"), self.input_dim)
        self.need(all(lifter), f"cepstral-lifter={self.number('cepstral-lifter')} divides by zero")
        rows = inverse_cosine_transform(self.input_dim, self.integer("dim"), lifter)
        # A last column of zeros: the transform's offset.
        lines.files[path] = "[ " + "\n".join(" ".join(map(str, [*row, 0])) for row in rows) + " ]"
        lines.step(self.name, "FixedAffineComponent", f"matrix={path}", self.input,
                   EVERYWHERE if self.flag("include-in-init") else NETWORK)


def lifter_coefficients(lifter: float, count: int) -> list[float]:
    """Return the factors of cepstral liftering for each coefficient; ones for ``lifter`` 0."""
    if lifter == 0.0:
        return [1.0] * count
    return [1.0 + 0.5 * lifter * math.sin(math.pi * k / lifter) for k in range(count)]


def inverse_cosine_transform(cepstra: int, filters: int, lifter: list[float]) -> list[list[float]]:
    """Return the matrix (filters, cepstra) that undoes a type-two cosine transform and its liftering."""
    scale, first = math.sqrt(2.0 / filters), math.sqrt(1.0 / filters)
    return [[(first if k == 0 else scale * math.cos(math.pi / filters * (n + 0.5) * k)) / lifter[k]
             for k in range(cepstra)] for n in range(filters)]


class SpecAugmentLayer(Layer):
    """``spec-augment-layer``: masks over a band of frequencies and stretches of time in training."""

    OPTIONS = {"input": "[-1]", "freq-max-proportion": 0.5, "time-zeroed-proportion": 0.2, "time-mask-max-frames": 20,
               "include-in-init": False}

    def derive(self) -> None:
        for key in ("freq-max-proportion", "time-zeroed-proportion"):
            self.need(0.0 < self.number(key) < 1.0,
                      f"{key}= must be above zero and below one, found {self.number(key)}")
        self.need_positive("time-mask-max-frames")

    def output(self) -> str:
        return self.at("time-mask")

    def build(self, lines: ConfigLines) -> None:
        configs = EVERYWHERE if self.flag("include-in-init") else NETWORK
        masked = lines.step(self.at("freq-mask"), "GeneralDropoutComponent",
                            f"dim={self.input_dim} specaugment-max-proportion={self.number('freq-max-proportion')}",
                            self.input, configs)
        lines.step(self.at("time-mask"), "SpecAugmentTimeMaskComponent",
                   f"dim={self.input_dim} zeroed-proportion={self.number('time-zeroed-proportion')} "
                   f"{self.pairs('time-mask-max-frames')}", masked, configs)
