"""Factored layers: ``tdnnf-layer`` (two time-delay maps around a bottleneck) and ``prefinal-layer``."""
from __future__ import annotations

from nnet3py.config_line import did_you_mean
from nnet3py.xconfig.layer import ConfigLines, Layer

NO_DROPOUT = -1.0

# Time offsets of the map into the bottleneck and of the one out of it, in strides.
CONTEXTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "default": ((-1, 0), (0, 1)), "left-only": ((-1, 0), (0,)), "shift-left": ((-1, 0), (-1, 0)), "none": ((0,), (0,)),
}


class TdnnfLayer(Layer):
    """``tdnnf-layer``: an orthonormal map to a bottleneck, an affine one out of it, both over time, and a bypass."""

    OPTIONS = {"input": "[-1]", "dim": -1, "bottleneck-dim": -1, "bypass-scale": 0.66,
               "dropout-proportion": NO_DROPOUT, "time-stride": 1, "l2-regularize": 0.0, "max-change": 0.75,
               "self-repair-scale": 1e-05, "context": "default"}
    DIM_FROM_INPUT = False

    def derive(self) -> None:
        self.need_positive("dim", "bottleneck-dim")
        dim, bottleneck, bypass = self.integer("dim"), self.integer("bottleneck-dim"), self.number("bypass-scale")
        self.need(dim > bottleneck, f"bottleneck-dim={bottleneck} must be below dim={dim}")
        self.need_within(-1.0, 1.0, "bypass-scale")
        self.need(bypass == 0.0 or dim == self.input_dim,
                  f"the bypass adds an input of {self.input_dim} columns to an output of {dim}",
                  "say bypass-scale=0.0, or make both equal")
        dropout = self.number("dropout-proportion")
        self.need(dropout == NO_DROPOUT or 0.0 <= dropout <= 1.0,
                  f"dropout-proportion= must be from 0 to 1, or -1.0 for none, found {dropout}")
        self.need_within(0, 10**9, "time-stride")
        self.need_within(0.0, float("inf"), "l2-regularize", "max-change")
        context = self.string("context")
        self.need(context in CONTEXTS, f"context= must be {', '.join(CONTEXTS)}, found '{context}'",
                  did_you_mean(context, list(CONTEXTS)))

    def output(self) -> str:
        if self.number("bypass-scale") != 0.0:
            return self.at("noop")
        return self.at("batchnorm" if self.number("dropout-proportion") == NO_DROPOUT else "dropout")

    def _time_offsets(self) -> tuple[str, str]:
        stride = self.integer("time-stride")
        into, out = CONTEXTS[self.string("context") if stride else "none"]
        return ",".join(str(t * stride) for t in into), ",".join(str(t * stride) for t in out)

    def build(self, lines: ConfigLines) -> None:
        dim, bottleneck = self.integer("dim"), self.integer("bottleneck-dim")
        into, out = self._time_offsets()
        options = self.pairs("l2-regularize", "max-change")
        current = lines.step(
            self.at("linear"), "TdnnComponent", f"input-dim={self.input_dim} output-dim={bottleneck} {options} "
            f"use-bias=false time-offsets={into} orthonormal-constraint=-1.0", self.input)
        current = lines.step(self.at("affine"), "TdnnComponent",
                             f"input-dim={bottleneck} output-dim={dim} {options} time-offsets={out}", current)
        current = lines.step(self.at("relu"), "RectifiedLinearComponent",
                             f"dim={dim} {self.pairs('self-repair-scale')}", current)
        current = lines.step(self.at("batchnorm"), "BatchNormComponent", f"dim={dim}", current)
        if self.number("dropout-proportion") != NO_DROPOUT:
            current = lines.step(self.at("dropout"), "GeneralDropoutComponent",
                                 f"dim={dim} {self.pairs('dropout-proportion')} continuous=true", current)
        if self.number("bypass-scale") != 0.0:
            lines.step(self.at("noop"), "NoOpComponent", f"dim={dim}",
                       f"Sum(Scale({self.number('bypass-scale')}, {self.input}), {current})")


class PrefinalLayer(Layer):
    """``prefinal-layer``: a wide layer with rectification, then an orthonormal map to few columns."""

    OPTIONS = {"input": "[-1]", "big-dim": -1, "small-dim": -1, "l2-regularize": 0.0, "max-change": 0.75,
               "self-repair-scale": 1e-05}

    def derive(self) -> None:
        self.need_positive("big-dim", "small-dim")
        big, small = self.integer("big-dim"), self.integer("small-dim")
        self.need(big > small, f"small-dim={small} must be below big-dim={big}")
        self.need_within(0.0, float("inf"), "l2-regularize", "max-change")

    def output(self) -> str:
        return self.at("batchnorm2")

    def output_dim(self) -> int:
        return self.integer("small-dim")

    def build(self, lines: ConfigLines) -> None:
        big, small = self.integer("big-dim"), self.integer("small-dim")
        options = self.pairs("l2-regularize", "max-change")
        current = lines.step(self.at("affine"), "NaturalGradientAffineComponent",
                             f"input-dim={self.input_dim} output-dim={big} {options}", self.input)
        current = lines.step(self.at("relu"), "RectifiedLinearComponent",
                             f"dim={big} {self.pairs('self-repair-scale')}", current)
        current = lines.step(self.at("batchnorm1"), "BatchNormComponent", f"dim={big}", current)
        current = lines.step(self.at("linear"), "LinearComponent",
                             f"input-dim={big} output-dim={small} {options} orthonormal-constraint=-1 ", current)
        lines.step(self.at("batchnorm2"), "BatchNormComponent", f"dim={small}", current)
