"""Convolution over time and height: the operations that the type's name lists (``conv-relu-batchnorm-layer`` …)."""
from __future__ import annotations

import re

from nnet3py.xconfig.layer import ConfigLines, Layer, Value

_OFFSETS = re.compile(r"[-+]?[0-9]{1,9}(,[-+]?[0-9]{1,9})*\Z")

# Options of the convolution that are passed on as they are.
PASSED_ON: dict[str, Value] = {
    "param-stddev": "", "bias-stddev": "", "use-natural-gradient": "", "max-change": 0.75, "rank-in": "",
    "rank-out": "", "num-minibatches-history": "", "alpha-in": "", "alpha-out": ""}


class ConvolutionLayer(Layer):
    """One component per word of the type's name; an image is height times filters columns."""

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
        """Type and settings of one operation's component, whose input has ``dim`` columns."""
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
