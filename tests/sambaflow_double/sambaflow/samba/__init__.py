"""Conversion of modules and tensors, and the session."""

from __future__ import annotations

from typing import Any

from sambaflow.double import logged
from sambaflow.samba import session as session
from sambaflow.samba.tensor import SambaTensor as SambaTensor
from sambaflow.samba.tensor import from_named_dict as from_named_dict
from sambaflow.samba.tensor import from_torch_tensor as from_torch_tensor
from sambaflow.samba.tensor import to_torch as to_torch
from sambaflow.samba.traced import check_model


def from_torch_model_(model: Any) -> None:
    """Converts a module's parameters. ContractError: buffers; shared weights."""
    logged("from_torch_model_")
    check_model(model)
    session._converted.append(model)
