"""Residual blocks of convolutions: ``res-block`` (operations before each convolution), ``res2-block`` (after)."""
from __future__ import annotations

from nnet3py.config_line import did_you_mean
from nnet3py.xconfig.convolution import PASSED_ON
from nnet3py.xconfig.layer import ConfigLines, Layer, Value

BYPASSES = ("noop", "input", "relu", "batchnorm")

COMMON: dict[str, Value] = {
    "input": "[-1]", "num-filters": -1, "num-bottleneck-filters": -1, "time-period": 1, "self-repair-scale": 2e-05,
    "self-repair-lower-threshold1": 0.05, "self-repair-lower-threshold2": 0.05, "self-repair-lower-threshold3": 0.05,
    "allow-zero-padding": True, **PASSED_ON, "l2-regularize": ""}


class ResidualBlock(Layer):
    """What both kinds of block share."""

    def derive(self) -> None:
        self.need_positive("time-period")
        bottleneck = self.integer("num-bottleneck-filters")
        self.need(bottleneck == -1 or bottleneck > 0, f"num-bottleneck-filters= must be above zero, found {bottleneck}")
        self.convolutions = 3 if bottleneck > 0 else 2

    def filters_after(self, n: int, last: int) -> int:
        """Filters after convolution ``n`` of 1 …; ``last`` after the last one, and after all without a bottleneck."""
        return self.integer("num-bottleneck-filters") if self.convolutions == 3 and n < 3 else last

    def is_three_by_three(self, n: int) -> bool:
        """Return whether convolution ``n`` looks at neighbors; the others of a bottleneck do not."""
        return self.convolutions == 2 or n == 2

    def convolution(self, geometry: str) -> str:
        """Return the settings of a convolution on the main path."""
        padding = "required-time-offsets=0" if self.flag("allow-zero-padding") else ""
        return f"{geometry} {padding} {self.pairs(*PASSED_ON, 'l2-regularize')}"

    def step(self, lines: ConfigLines, operation: str, n: int, height: int, filters: int, source: str) -> str:
        """Batch normalization, scale-and-offset or rectification number ``n``."""
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

    def output_dim(self) -> int:
        return self.input_dim

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
