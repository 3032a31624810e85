"""How a frozen backbone computes. These settings may break isolation, so they are audited."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check

OutlierRule = Literal["batched", "record", "token", "calibrated", "none"]
"""Whose outliers decide which columns of a row leave the int8 product."""

Backbone = Literal["float32", "bfloat16", "nf4", "int8", "bitsandbytes-int8"]
"""Arithmetic of the frozen linear layers."""

OUTLIER_RULES: tuple[OutlierRule, ...] = ("batched", "record", "token", "calibrated", "none")
BACKBONES: tuple[Backbone, ...] = ("float32", "bfloat16", "nf4", "int8", "bitsandbytes-int8")


@final
@dataclass(frozen=True, kw_only=True)
class PrecisionSpec:
    """Arithmetic of the frozen linear layers of a decoder's blocks."""

    backbone: Backbone = "float32"
    """``int8`` is insular's product, ``bitsandbytes-int8`` the stock layer."""
    outlier_rule: OutlierRule = "none"
    """Rule of the ``int8`` backbone; ignored by the others."""
    threshold: float = 6.0
    """Magnitude at or above which an activation is an outlier. 0 means none."""
    training_mode: bool = False
    """Whether ``bitsandbytes-int8`` layers train; on CPU that is another operator."""

    def __post_init__(self) -> None:
        """Refuse values outside their rule."""
        _check.one_of(BACKBONES, backbone=self.backbone)
        _check.one_of(OUTLIER_RULES, outlier_rule=self.outlier_rule)
        _check.non_negative_finite(threshold=self.threshold)
        if self.backbone == "int8" and self.outlier_rule != "none":
            _check.positive_finite(threshold=self.threshold)
