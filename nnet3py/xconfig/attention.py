"""Attention layers: an affine transform and the operations that the type's name lists, one of them attention."""
from __future__ import annotations

import math

from nnet3py.xconfig.basic import NONLINEARITIES
from nnet3py.xconfig.layer import ConfigLines, Layer


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
        """Type and settings of one operation's component, whose input has ``dim`` columns."""
        if operation == "attention":
            return "RestrictedAttentionComponent", self.pairs(
                "value-dim", "key-dim", "num-left-inputs", "num-right-inputs", "num-left-inputs-required",
                "num-right-inputs-required", "output-context", "time-stride", "num-heads", "key-scale")
        if operation in NONLINEARITIES:
            return NONLINEARITIES[operation], f"dim={dim} {self.pairs('self-repair-scale')}"
        type = "BatchNormComponent" if operation == "batchnorm" else "NormalizeComponent"
        return type, f"dim={dim} {self.pairs('target-rms')}"
