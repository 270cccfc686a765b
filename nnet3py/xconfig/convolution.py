"""Layers of convolutions over time and height (``conv-relu-batchnorm-layer`` …), and residual blocks."""
from __future__ import annotations

import re

from nnet3py.config_line import did_you_mean
from nnet3py.xconfig.layer import ConfigLines, Layer, Value

_OFFSETS = re.compile(r"[-+]?[0-9]{1,9}(,[-+]?[0-9]{1,9})*\Z")

# Options that are copied to the convolution's config line.
PASSED_ON: dict[str, Value] = {
    "param-stddev": "", "bias-stddev": "", "use-natural-gradient": "", "max-change": 0.75, "rank-in": "",
    "rank-out": "", "num-minibatches-history": "", "alpha-in": "", "alpha-out": ""}


class ConvolutionLayer(Layer):
    """Layers such as ``conv-relu-batchnorm-layer``: one component for each word of the name, on images.

    An image has height times filters columns.
    """

    OPTIONS = {"input": "[-1]", "height-in": -1, "height-subsample-out": 1, "height-out": -1, "height-offsets": "",
               "time-offsets": "", "required-time-offsets": "", "num-filters-out": -1, "target-rms": 1.0,
               "self-repair-scale": 2e-05, "self-repair-lower-threshold": 0.05, **PASSED_ON,
               "learning-rate-factor": "", "l2-regularize": "", "dropout-proportion": 0.5}

    def derive(self) -> None:
        words = self.type.split("-")[:-1]
        self.operations = [word for word in words if word != "noconv"]
        self.need_positive("height-in", "height-out", "height-subsample-out", "num-filters-out", "target-rms")
        self.need_within(0.0, 1.0, "dropout-proportion")
        height_in = self.integer("height-in")
        self.need(self.input_dim % height_in == 0,
                  f"the input's dimension {self.input_dim} is not a multiple of height-in={height_in}")
        self.values["num-filters-in"] = self.input_dim // height_in
        if "conv" in words:
            self._check_offsets()
        else:
            self.need(self.output_dim() == self.input_dim, "without a convolution height-out= times num-filters-out= "
                      f"must be the input's dimension {self.input_dim}, found {self.output_dim()}")

    def _check_offsets(self) -> None:
        for key in ("height-offsets", "time-offsets", "required-time-offsets"):
            text = self.string(key)
            offsets = [int(offset) for offset in text.split(",")] if _OFFSETS.match(text) else []
            rising = offsets == sorted(set(offsets)) and offsets != []
            self.need(rising or key.startswith("required") and not text,
                      f"{key}= must be rising integers such as -1,0,1, found '{text}'")
        height_in, subsample = self.integer("height-in"), self.integer("height-subsample-out")
        covered = self.integer("height-out") * subsample
        least = height_in - len(self.string("height-offsets").split(","))
        self.need(least <= covered <= height_in,
                  f"height-out= times height-subsample-out= must be from {max(least, 1)} to {height_in} for these "
                  f"height-offsets=, found {covered}")

    def output(self) -> str:
        return self.at(self.operations[-1])

    def output_dim(self) -> int:
        return self.integer("num-filters-out") * self.integer("height-out")

    def build(self, lines: ConfigLines) -> None:
        current, side = self.input, "in"
        for operation in self.operations:
            filters = self.integer(f"num-filters-{side}")
            dim, name = filters * self.integer(f"height-{side}"), self.at(operation)
            type, settings = self.operation(operation, dim, filters)
            # Kaldi has two blanks in the lines of batch normalization.
            lines.component(f"{name} " if operation == "batchnorm" else name, type, settings)
            lines.node(name, name, current)
            current = name
            if operation == "conv":
                side = "out"

    def operation(self, operation: str, dim: int, filters: int) -> tuple[str, str]:
        """Return type and settings of an operation's component, whose input has ``dim`` columns."""
        if operation == "conv":
            return "TimeHeightConvolutionComponent", self.pairs(
                *PASSED_ON, "num-filters-in", "num-filters-out", "height-in", "height-out", "height-subsample-out",
                "height-offsets", "time-offsets", "required-time-offsets", "learning-rate-factor", "l2-regularize")
        if operation == "batchnorm":
            return "BatchNormComponent", f"dim={dim} block-dim={filters} {self.pairs('target-rms')}"
        if operation == "renorm":
            return "NormalizeComponent", f"dim={dim} {self.pairs('target-rms')}"
        if operation == "dropout":
            return "DropoutComponent", f"dim={dim} {self.pairs('dropout-proportion')}"
        if operation == "so":
            return "ScaleAndOffsetComponent", f"dim={dim} block-dim={filters}"
        return "RectifiedLinearComponent", (f"dim={dim} block-dim={filters} "
                                            f"{self.pairs('self-repair-scale', 'self-repair-lower-threshold')}")


BYPASSES = ("noop", "input", "relu", "batchnorm")

COMMON: dict[str, Value] = {
    "input": "[-1]", "num-filters": -1, "num-bottleneck-filters": -1, "time-period": 1, "self-repair-scale": 2e-05,
    "self-repair-lower-threshold1": 0.05, "self-repair-lower-threshold2": 0.05, "self-repair-lower-threshold3": 0.05,
    "allow-zero-padding": True, **PASSED_ON, "l2-regularize": ""}


class ResidualBlock(Layer):
    """Base of both kinds of residual block."""

    def derive(self) -> None:
        self.need_positive("time-period")
        bottleneck = self.integer("num-bottleneck-filters")
        self.need(bottleneck == -1 or bottleneck > 0, f"num-bottleneck-filters= must be above zero, found {bottleneck}")
        self.convolutions = 3 if bottleneck > 0 else 2

    def filters_after(self, n: int, last: int) -> int:
        """Return the number of filters after convolution ``n`` (from 1): ``last`` for the last one."""
        return self.integer("num-bottleneck-filters") if self.convolutions == 3 and n < 3 else last

    def is_three_by_three(self, n: int) -> bool:
        """Return whether convolution ``n`` is 3 x 3; the others of a bottleneck are 1 x 1."""
        return self.convolutions == 2 or n == 2

    def convolution(self, geometry: str) -> str:
        """Return the settings of a convolution on the main path."""
        padding = "required-time-offsets=0" if self.flag("allow-zero-padding") else ""
        return f"{geometry} {padding} {self.pairs(*PASSED_ON, 'l2-regularize')}"

    def step(self, lines: ConfigLines, operation: str, n: int, height: int, filters: int, source: str) -> str:
        """Append component and node of batch normalization, scale-and-offset or rectification number ``n``."""
        name, settings = self.at(f"{operation}{n}"), f"dim={height * filters} block-dim={filters}"
        if operation == "relu":
            threshold = self.number(f"self-repair-lower-threshold{n}")
            return lines.step(name, "RectifiedLinearComponent", f"{settings} {self.pairs('self-repair-scale')} "
                              f"self-repair-lower-threshold={threshold}", source)
        type = {"batchnorm": "BatchNormComponent", "scaleoffset": "ScaleAndOffsetComponent"}[operation]
        lines.component(f"{name} ", type, settings)      # two blanks, as Kaldi has them
        lines.node(name, name, source)
        return name


class ResBlock(ResidualBlock):
    """``res-block``: rectification, batch normalization, convolution, two or three times, and the input added."""

    OPTIONS = {**COMMON, "height": -1, "height-period": 1, "bypass-source": "noop"}

    def derive(self) -> None:
        super().derive()
        self.need_positive("height", "height-period")
        height, filters = self.integer("height"), self.integer("num-filters")
        self.need(self.input_dim % height == 0,
                  f"the input's dimension {self.input_dim} is not a multiple of height={height}")
        self.need(filters in (-1, self.input_dim // height),
                  f"the input has {self.input_dim // height} filters, and so must the output, found {filters}")
        self.values["num-filters"] = self.input_dim // height
        bypass = self.string("bypass-source")
        self.need(bypass in BYPASSES, f"bypass-source= must be {', '.join(BYPASSES)}, found '{bypass}'",
                  did_you_mean(bypass, list(BYPASSES)))

    def output(self) -> str:
        bypass = self.string("bypass-source")
        if bypass == "noop":
            return self.at("noop")
        source = self.input if bypass == "input" else self.at(f"{bypass}1")
        return f"Sum({self.at(f'conv{self.convolutions}')}, {source})"

    def build(self, lines: ConfigLines) -> None:
        height = self.integer("height")
        current, filters = self.input, self.integer("num-filters")
        for n in range(1, self.convolutions + 1):
            current = self.step(lines, "relu", n, height, filters, current)
            current = self.step(lines, "batchnorm", n, height, filters, current)
            after = self.filters_after(n, self.integer("num-filters"))
            periods = [self.integer("height-period"), self.integer("time-period")]
            heights, times = ([f"-{period},0,{period}" for period in periods] if self.is_three_by_three(n)
                              else ["0", "0"])
            geometry = (f"height-in={height} height-out={height} height-offsets={heights} time-offsets={times} "
                        f"num-filters-in={filters} num-filters-out={after}")
            current = lines.step(self.at(f"conv{n}"), "TimeHeightConvolutionComponent", self.convolution(geometry),
                                 current)
            filters = after
        if self.string("bypass-source") == "noop":
            lines.step(self.at("noop"), "NoOpComponent", f"dim={self.input_dim}", f"Sum({self.input}, {current})")


class Res2Block(ResidualBlock):
    """``res2-block``: convolution, batch normalization, scale and offset, rectification; it may halve the height."""

    OPTIONS = {**COMMON, "height": -1, "height-in": -1, "height-out": -1}

    def derive(self) -> None:
        super().derive()
        height, given = self.integer("height"), [key for key in ("height-in", "height-out") if self.integer(key) > 0]
        self.need((height > 0 and not given) or len(given) == 2, f"{self.type} needs height=, or height-in= and "
                  "height-out=")
        if not given:
            self.values["height-in"] = self.values["height-out"] = height
        self.need_positive("num-filters")
        height_in, height_out = self.integer("height-in"), self.integer("height-out")
        self.need(self.input_dim % height_in == 0,
                  f"the input's dimension {self.input_dim} is not a multiple of height-in={height_in}")
        self.subsample = 1 if height_in == height_out else 2
        if self.subsample == 2:
            self.need(abs(height_out - height_in / 2) <= 1,
                      f"height-out={height_out} must be height-in={height_in} or about half of it")
            self.need(self.convolutions == 3 or self.integer("time-period") % 2 == 0,
                      "time-period= must be even where the height is halved, for it is halved as well")
        self.filters_in = self.input_dim // height_in

    def output(self) -> str:
        return self.at(f"relu{self.convolutions}")

    def output_dim(self) -> int:
        return self.integer("height-out") * self.integer("num-filters")

    def build(self, lines: ConfigLines) -> None:
        height_out = self.integer("height-out")
        changes = self.subsample == 2 or self.filters_in != self.integer("num-filters")
        bypass = self.at("conv_bypass") if changes else self.input
        current, filters = self.input, self.filters_in
        for n in range(1, self.convolutions + 1):
            after = self.filters_after(n, self.integer("num-filters"))
            current = lines.step(self.at(f"conv{n}"), "TimeHeightConvolutionComponent",
                                 self.convolution(self._geometry(n, filters, after)), current)
            filters = after
            current = self.step(lines, "batchnorm", n, height_out, filters, current)
            current = self.step(lines, "scaleoffset", n, height_out, filters, current)
            if n == self.convolutions:
                current = f"Sum({current}, {bypass})"
            current = self.step(lines, "relu", n, height_out, filters, current)
        if changes:
            settings = (f"{self.pairs('height-in', 'height-out')} height-offsets=0 time-offsets=0 "
                        f"height-subsample-out={self.subsample} num-filters-in={self.filters_in} "
                        f"num-filters-out={self.integer('num-filters')} {self.pairs(*PASSED_ON, 'l2-regularize')}")
            lines.step(bypass, "TimeHeightConvolutionComponent", settings, self.input)

    def _geometry(self, n: int, filters: int, after: int) -> str:
        """Return the shape of convolution ``n``: the first one halves the height if necessary."""
        height_out, period = self.integer("height-out"), self.integer("time-period")
        height, subsample = (self.integer("height-in"), self.subsample) if n == 1 else (height_out, 1)
        if self.convolutions == 2:
            period //= subsample
        heights, times = ("-1,0,1", f"-{period},0,{period}") if self.is_three_by_three(n) else ("0", "0")
        return (f"height-in={height} height-out={height_out} height-offsets={heights} time-offsets={times} "
                f"num-filters-in={filters} num-filters-out={after} height-subsample-out={subsample}")
