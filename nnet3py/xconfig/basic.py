"""Basic layers: an affine transform, then the operations that the type's name lists (``relu-batchnorm-layer`` …)."""
from __future__ import annotations

from nnet3py.xconfig.layer import ConfigLines, Layer, lower


class BasicLayer(Layer):
    """An affine transform (in two factors with ``bottleneck-dim``) and one component per word of the type's name."""

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
        """Type and settings of one operation's component, whose input has ``dim`` columns."""
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
