"""Named tensors, as the vendor wraps them; the plain tensor is `data` here."""

from __future__ import annotations

from typing import Any

import torch

from sambaflow.double import ContractError, logged

_ROWS = (torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.bool)


class SambaTensor:
    """A tensor with the name, and the region of device memory, by which the PEF knows it. The region is the name's own
    until it is set."""

    def __init__(self, data: torch.Tensor, name: str) -> None:
        self.data, self.sn_name, self.batch_dim = data, name, None
        self._region = name
        self.place = "input"

    @property
    def shape(self) -> Any:
        return self.data.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    @property
    def sn_region_name(self) -> str:
        return self._region

    @sn_region_name.setter
    def sn_region_name(self, region: str) -> None:
        if self.place == "input":
            raise ContractError(f"{self.sn_name}: an output takes an input's region, never the other way")
        if self.place == "added":
            raise ContractError(f"{self.sn_name}: its graph was added already; connect regions before add_graph")
        logged("sn_region_name", self.sn_name, region)
        self._region = region


def from_torch_tensor(data: torch.Tensor, name: str | None = None, batch_dim: int | None = None) -> SambaTensor:
    """A named tensor. ContractError: no name; a dtype in no row of the vendor's tables."""
    if not name:
        raise ContractError("from_torch_tensor: an input without a name; names are burned into the PEF")
    if isinstance(data, SambaTensor):
        raise ContractError(f"{name}: from_torch_tensor takes a torch tensor, not a SambaTensor")
    if data.dtype not in _ROWS:
        raise ContractError(f"{name}: wrong dtype {_dtype(data)}; it is in no row of the vendor's tables")
    logged("from_torch_tensor", name, _dtype(data), list(data.shape))
    return SambaTensor(data.detach(), name)


def from_named_dict(tensors: dict[str, torch.Tensor]) -> list[SambaTensor]:
    """Named tensors of a dictionary."""
    logged("from_named_dict", *tensors)
    return [from_torch_tensor(data, name) for name, data in tensors.items()]


def to_torch(tensor: SambaTensor) -> torch.Tensor:
    """The tensor's value on the host."""
    if not isinstance(tensor, SambaTensor):
        raise ContractError(f"to_torch takes a SambaTensor, not {type(tensor).__name__}")
    logged("to_torch", tensor.sn_name)
    return tensor.data.clone()


def description(tensor: SambaTensor) -> list[object]:
    """What the PEF keeps of an input or output."""
    return [tensor.sn_name, _dtype(tensor.data), list(tensor.shape)]


def _dtype(data: torch.Tensor) -> str:
    return str(data.dtype)[len("torch.") :]
