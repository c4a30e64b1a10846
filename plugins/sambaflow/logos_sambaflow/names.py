"""Python names for program variables: the same name, but for those that would break the emitted module."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from functools import cache

from logos_sambaflow.parts import helpers, parts

_MODULE = """
T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval
extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia
named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer
register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule share_memory
state_dict to to_empty train training type xpu zero_grad
"""
"""The public attributes of nn.Module in torch 1.10 to 2.13; those that begin with `_` are renamed by rule."""

_TRACED = """
add_submodule code code_with_constants define delete_all_unused_submodules delete_submodule device forward_magic_method
fx_pytree get_debug_state graph graph_for inf inlined_graph meta nan original_name print_readable pytree
range_constraints recompile save save_to_buffer shape_env to_folder validate_inputs
"""
"""What a module has besides once it was exported or traced, and the global names of torch's generated code."""

_OWN = "self torch F nn math Tensor load_weights initial_states"
"""The emitted file's own names that forward reads, and LogosModule's methods."""

_LOWERED = frozenset((*keyword.kwlist, "self", "torch", "device", "fx_pytree", "inf", "nan", "pytree"))
"""What an argument of forward may not be in lower case: torch.export writes code in which all of them are."""


@cache
def reserved(prefill: bool = False) -> frozenset[str]:
    """The names that a variable cannot keep in the emitted module (besides those that begin with `_`); `prefill`: with
    the helpers of many steps at once."""
    rows = parts("rows_helpers.py") if prefill else ()
    used = (*helpers("listed"), *helpers("plain"), *rows)
    return frozenset((*_MODULE.split(), *_TRACED.split(), *_OWN.split(), *keyword.kwlist, *used))


def python_names(variables: Iterable[str], prefill: bool = False) -> Mapping[str, str]:
    """A Python name for each variable, in order; no two share one.

    A name that breaks gets `_` at its end, one that begins with `_` (nn.Module keeps its own there) `v` in front,
    repeated until it is nobody else's.
    """
    variables = tuple(variables)
    broken = reserved(prefill)
    taken = {name for name in variables if not name.startswith("_") and not _breaks(name, broken)}
    names = {}
    for variable in variables:
        names[variable] = variable if variable in taken else fresh(variable, taken, broken)
        taken.add(names[variable])
    return names


def fresh(name: str, taken: Iterable[str], broken: frozenset[str] = frozenset()) -> str:
    """The name, lengthened until it is neither taken nor reserved."""
    name = f"v{name}" if name.startswith("_") else name
    while name in taken or _breaks(name, broken):
        name += "_"
    return name


def _breaks(name: str, broken: frozenset[str]) -> bool:
    return name in broken or name.lower() in _LOWERED
