"""Where data enters and leaves a network: ``input``, ``output``, ``output-layer``."""
from __future__ import annotations

import math

from nnet3py.xconfig.layer import EVERYWHERE, ConfigLines, Layer

OBJECTIVES = ("linear", "quadratic")


class InputLayer(Layer):
    """``input``: features or iVectors come in."""

    OPTIONS = {"dim": -1}
    DIM_FROM_INPUT = False

    def derive(self) -> None:
        self.need_positive("dim")

    def build(self, lines: ConfigLines) -> None:
        lines.add(f"input-node name={self.name} dim={self.integer('dim')}", EVERYWHERE)


class OutputLine(Layer):
    """``output``: an output of the network without any parameters."""

    OPTIONS = {"input": "[-1]", "dim": -1, "objective-type": "linear", "output-delay": 0}

    def derive(self) -> None:
        self.need(self.string("objective-type") in OBJECTIVES,
                  f"objective-type= must be {' or '.join(OBJECTIVES)}, found '{self.string('objective-type')}'")

    def output(self) -> str:
        return ""      # nnet3-init accepts no output node as an input

    def output_dim(self) -> int:
        return self.input_dim

    def build(self, lines: ConfigLines) -> None:
        self.add_output_node(lines, self.input)

    def add_output_node(self, lines: ConfigLines, source: str) -> None:
        """Return the output node itself, with the delay if any."""
        delay = self.integer("output-delay")
        source = f"Offset({source}, {delay})" if delay else source
        lines.add(f"output-node name={self.name} input={source} objective={self.string('objective-type')}")


class OutputLayer(OutputLine):
    """``output-layer``: an affine transform, a log-softmax if requested, and an output of the network."""

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
