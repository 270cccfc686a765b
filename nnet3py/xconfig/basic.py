"""Feed-forward layers: inputs and outputs, basic layers, attention, factored TDNN layers, statistics over time.

A basic layer is an affine transform, then the operations in the name of the type (``relu-batchnorm-layer`` …).
"""
from __future__ import annotations

import math
import re

from nnet3py.config_line import did_you_mean
from nnet3py.xconfig.layer import EVERYWHERE, ConfigLines, Layer, lower

OBJECTIVES = ("linear", "quadratic")


class InputLayer(Layer):
    """``input``: features or i-vectors."""

    OPTIONS = {"dim": -1}
    DIM_FROM_INPUT = False

    def derive(self) -> None:
        self.need_positive("dim")

    def build(self, lines: ConfigLines) -> None:
        lines.add(f"input-node name={self.name} dim={self.integer('dim')}", EVERYWHERE)


class OutputLine(Layer):
    """``output``: output of the network without parameters."""

    OPTIONS = {"input": "[-1]", "dim": -1, "objective-type": "linear", "output-delay": 0}

    def derive(self) -> None:
        self.need(self.string("objective-type") in OBJECTIVES,
                  f"objective-type= must be {' or '.join(OBJECTIVES)}, found '{self.string('objective-type')}'")

    def output(self) -> str:
        return ""      # nnet3-init does not accept an output node as input

    def output_dim(self) -> int:
        return self.input_dim

    def build(self, lines: ConfigLines) -> None:
        self.add_output_node(lines, self.input)

    def add_output_node(self, lines: ConfigLines, source: str) -> None:
        """Append the line of the output node, which reads ``source`` with the option ``output-delay``."""
        delay = self.integer("output-delay")
        source = f"Offset({source}, {delay})" if delay else source
        lines.add(f"output-node name={self.name} input={source} objective={self.string('objective-type')}")


class OutputLayer(OutputLine):
    """``output-layer``: affine transform, perhaps log-softmax, and an output of the network."""

    OPTIONS = {"input": "[-1]", "dim": -1, "bottleneck-dim": -1, "orthonormal-constraint": 1.0,
               "include-log-softmax": True, "objective-type": "linear", "output-delay": 0, "ng-affine-options": "",
               "ng-linear-options": "", "learning-rate-factor": "", "l2-regularize": "", "max-change": 1.5,
               "param-stddev": 0.0, "bias-stddev": 0.0}
    AUXILIARY = ("affine", "log-softmax")

    def derive(self) -> None:
        super().derive()
        self.need_positive("orthonormal-constraint")
        if not self.flag("include-log-softmax"):
            self.parts = ("affine",)

    def output_dim(self) -> int:
        return self.integer("dim")

    def auxiliary(self, part: str) -> tuple[str, int]:
        return self.at(part), self.integer("dim")

    def build(self, lines: ConfigLines) -> None:
        current, dim = self.input, self.input_dim
        bottleneck, out = self.integer("bottleneck-dim"), self.integer("dim")
        if bottleneck > 0:
            constraint = self.number("orthonormal-constraint")
            options = " ".join(["max-change=0.75", self.string("ng-linear-options"),
                                self.pairs("learning-rate-factor", "l2-regularize", "max-change")])
            current = lines.step(
                self.at("linear"), "LinearComponent",
                f"orthonormal-constraint={constraint} param-stddev={constraint / math.sqrt(dim)} input-dim={dim} "
                f"output-dim={bottleneck} {options}", current)
            dim = bottleneck
        settings = self.pairs("learning-rate-factor", "l2-regularize", "max-change", "param-stddev", "bias-stddev")
        current = lines.step(self.at("affine"), "NaturalGradientAffineComponent",
                             f"input-dim={dim} output-dim={out} {self.string('ng-affine-options')} {settings}", current)
        if self.flag("include-log-softmax"):
            current = lines.step(self.at("log-softmax"), "LogSoftmaxComponent", f"dim={out}", current)
        self.add_output_node(lines, current)


class BasicLayer(Layer):
    """Affine transform (in two factors with ``bottleneck-dim``), then a component per word of the type's name."""

    OPTIONS = {"input": "[-1]", "dim": -1, "bottleneck-dim": -1, "self-repair-scale": 1e-05, "target-rms": 1.0,
               "ng-affine-options": "", "ng-linear-options": "", "dropout-proportion": 0.5, "dropout-per-dim": False,
               "dropout-per-dim-continuous": False, "add-log-stddev": False, "bias-stddev": "", "l2-regularize": "",
               "learning-rate-factor": "", "max-change": 0.75}

    def derive(self) -> None:
        self.operations = self.type.split("-")[:-1]
        self.adds_stddev = self.flag("add-log-stddev") and self.operations[-1] == "renorm"
        self.need_within(0.0, 1.0, "dropout-proportion", "self-repair-scale")
        self.need_positive("target-rms")
        self.need(self.integer("dim") > self.adds_stddev, "add-log-stddev takes one of the layer's dimensions, and "
                  "there is only one")
        bottleneck, dim = self.integer("bottleneck-dim"), self.integer("dim")
        self.need(bottleneck == -1 or 0 < bottleneck < dim,
                  f"bottleneck-dim= must be above zero and below the layer's dimension {dim}, found {bottleneck}")

    def output(self) -> str:
        return self.at(self.operations[-1])

    def build(self, lines: ConfigLines) -> None:
        current, dim = self.input, self.input_dim
        out = self.integer("dim") - self.adds_stddev
        bottleneck = self.integer("bottleneck-dim")
        if bottleneck > 0:
            current = lines.step(self.at("linear"), "LinearComponent",
                                 f"input-dim={dim} orthonormal-constraint=1.0 output-dim={bottleneck} "
                                 f"{self.string('ng-linear-options')} "
                                 f"{self.pairs('max-change', 'learning-rate-factor')}", current)
            dim = bottleneck
        options = self.pairs("max-change", "learning-rate-factor", "bias-stddev", "l2-regularize")
        current = lines.step(self.at("affine"), "NaturalGradientAffineComponent",
                             f"input-dim={dim} output-dim={out} {self.string('ng-affine-options')} {options}", current)
        for operation in self.operations:
            current = lines.step(self.at(operation), *self.operation(operation, out), current)

    def operation(self, operation: str, dim: int) -> tuple[str, str]:
        """Return type and settings of an operation's component, whose input has ``dim`` columns."""
        last = operation == self.operations[-1]
        if operation == "renorm":
            return "NormalizeComponent", (f"dim={dim} {self.pairs('target-rms')} "
                                          f"add-log-stddev={lower(last and self.adds_stddev)}")
        if operation == "batchnorm":
            return "BatchNormComponent", f"dim={dim} {self.pairs('target-rms')}"
        if operation == "so":
            return "ScaleAndOffsetComponent", f"dim={dim} max-change=0.5"
        if operation == "dropout":
            proportion = f"dim={dim} {self.pairs('dropout-proportion')}"
            if self.flag("dropout-per-dim-continuous"):
                return "GeneralDropoutComponent", f"{proportion} continuous=true"
            return ("GeneralDropoutComponent" if self.flag("dropout-per-dim") else "DropoutComponent"), proportion
        return NONLINEARITIES[operation], f"dim={dim} {self.pairs('self-repair-scale')}"


NONLINEARITIES = {"relu": "RectifiedLinearComponent", "sigmoid": "SigmoidComponent", "tanh": "TanhComponent"}


class AttentionLayer(Layer):
    """Restricted self-attention over ``num-left-inputs`` and ``num-right-inputs`` steps of ``time-stride`` frames."""

    OPTIONS = {"input": "[-1]", "dim": -1, "max-change": 0.75, "self-repair-scale": 1e-05, "target-rms": 1.0,
               "learning-rate-factor": 1.0, "ng-affine-options": "", "l2-regularize": 0.0,
               "num-left-inputs-required": -1, "num-right-inputs-required": -1, "output-context": True,
               "time-stride": 1, "num-heads": 1, "key-dim": -1, "value-dim": -1, "num-left-inputs": -1,
               "num-right-inputs": -1, "key-scale": 0.0, "dropout-proportion": 0.5}

    def derive(self) -> None:
        self.operations = self.type.split("-")[:-1]
        self.need_positive("key-dim", "value-dim", "num-heads", "time-stride", "target-rms")
        for side in ("left", "right"):
            key = f"num-{side}-inputs"
            self.need(key in self.line.values, f"{self.type} needs {key}=")
            self.need_within(0, 10**6, key)
            self.need_within(-1, self.integer(key), f"{key}-required")
        self.need_within(0.0, math.inf, "key-scale", "max-change", "l2-regularize", "learning-rate-factor")
        self.need_within(0.0, 1.0, "self-repair-scale", "dropout-proportion")
        if self.number("key-scale") == 0.0:
            self.values["key-scale"] = 1.0 / math.sqrt(self.integer("key-dim"))
        self.context = 1 + self.integer("num-left-inputs") + self.integer("num-right-inputs")

    def output(self) -> str:
        return self.at(self.operations[-1])

    def output_dim(self) -> int:
        per_head = self.integer("value-dim") + (self.context if self.flag("output-context") else 0)
        return self.integer("num-heads") * per_head

    def build(self, lines: ConfigLines) -> None:
        dim = self.integer("num-heads") * (2 * self.integer("key-dim") + self.integer("value-dim") + self.context)
        rate = self.pairs("learning-rate-factor") if self.number("learning-rate-factor") != 1.0 else ""
        l2 = self.pairs("l2-regularize") if self.number("l2-regularize") != 0.0 else ""
        current = lines.step(self.at("affine"), "NaturalGradientAffineComponent",
                             f"input-dim={self.input_dim} output-dim={dim} {self.pairs('max-change')} "
                             f"{self.string('ng-affine-options')} {rate} {l2}", self.input)
        for operation in self.operations:
            current = lines.step(self.at(operation), *self.operation(operation, dim), current)
            if operation == "attention":
                dim = self.output_dim()

    def operation(self, operation: str, dim: int) -> tuple[str, str]:
        """Return type and settings of an operation's component, whose input has ``dim`` columns."""
        if operation == "attention":
            return "RestrictedAttentionComponent", self.pairs(
                "value-dim", "key-dim", "num-left-inputs", "num-right-inputs", "num-left-inputs-required",
                "num-right-inputs-required", "output-context", "time-stride", "num-heads", "key-scale")
        if operation in NONLINEARITIES:
            return NONLINEARITIES[operation], f"dim={dim} {self.pairs('self-repair-scale')}"
        type = "BatchNormComponent" if operation == "batchnorm" else "NormalizeComponent"
        return type, f"dim={dim} {self.pairs('target-rms')}"


NO_DROPOUT = -1.0

# Time offsets, in strides, of the map into the bottleneck and of the map out of it.
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


_CONFIG = re.compile(r"mean(\+stddev)?(\+count)?\(-?([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})\)\Z")


class StatsLayer(Layer):
    """``stats-layer``: extraction of sums over short periods, then pooling over the window of ``config=``."""

    OPTIONS = {"input": "[-1]", "dim": -1, "config": ""}
    DIM_FROM_INPUT = False

    def derive(self) -> None:
        matched = _CONFIG.match(self.string("config"))
        if not matched:
            raise self.line.error(f"config= must be such as mean+stddev(-99:3:9:99), found '{self.string('config')}'",
                                  "left context, input period, output period, right context; mean, mean+stddev, "
                                  "mean+count or mean+stddev+count")
        self.stddev, self.count = bool(matched[1]), bool(matched[2])
        self.left, self.input_period, self.period, self.right = (int(number) for number in matched.groups()[2:])
        self.need(self.input_period > 0 and self.period > 0, "a period in config= is zero")
        self.need(self.period % self.input_period == 0,
                  f"the output period {self.period} is not a multiple of the input period {self.input_period}")
        self.need(self.left % self.period == 0 and self.right % self.period == 0,
                  f"the contexts {self.left} and {self.right} must be multiples of the output period {self.period}")
        dim = self.input_dim * (2 if self.stddev else 1) + self.count
        given = self.integer("dim")
        self.need(given <= 0 or given == dim, f"dim={given}, but the statistics have {dim} columns")
        self.values["dim"] = dim

    def output(self) -> str:
        return f"Round({self.name}-pooling-{self.left}-{self.right}, {self.period})"

    def build(self, lines: ConfigLines) -> None:
        window = f"{self.left}-{self.right}"
        extracted = lines.step(
            f"{self.name}-extraction-{window}", "StatisticsExtractionComponent",
            f"input-dim={self.input_dim} input-period={self.input_period} output-period={self.period} "
            f"include-variance={lower(self.stddev)} ", f"{self.input} ")
        lines.step(
            f"{self.name}-pooling-{window}", "StatisticsPoolingComponent",
            f"input-dim={1 + self.input_dim * (2 if self.stddev else 1)} input-period={self.period} "
            f"left-context={self.left} right-context={self.right} num-log-count-features={int(self.count)} "
            f"output-stddevs={lower(self.stddev)} ", f"{extracted} ")
