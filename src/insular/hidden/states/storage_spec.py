"""Names of the formats in which states are kept. Torch-free."""

from typing import Literal

StorageFormat = Literal["float32", "bf16", "int8", "int4"]
STORAGE_FORMATS: tuple[StorageFormat, ...] = ("float32", "bf16", "int8", "int4")
