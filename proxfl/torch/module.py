"""A module's trained parameters as a point, by the names PyTorch gives them, and back."""

from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from proxfl.points import Point, Tree

KINDS = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def trained(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """What is to be learned, each once: tied parameters by their first name, frozen ones not."""
    found = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not found:
        raise ValueError(
            "The module has no parameter that requires a gradient; unfreeze what is to be trained."
        )
    kinds = {p.dtype for p in found.values()}
    if len(kinds) > 1 or not kinds <= KINDS.keys():
        held = " and ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
        raise ValueError(
            f"The parameters to be trained are held in {held}; hold all of them in float32 or all "
            "in float64, by module.float() or module.double()."
        )
    places = {str(tensor.device) for tensor in (*found.values(), *module.buffers())}
    if len(places) > 1:
        raise ValueError(
            f"The module lies on {' and '.join(sorted(places))}; move it to one device by "
            "module.to(device)."
        )
    return found


def parameters(module: torch.nn.Module) -> Tree:
    """A copy of a module's trained parameters, as a point to start from."""
    copied = lambda p: p.detach().cpu().numpy().copy()
    return Tree({name: copied(p) for name, p in trained(module).items()})


def write(module: torch.nn.Module, model: Point) -> torch.nn.Module:
    """Put a model into a module, which keeps its device, its type and what was frozen."""
    own, params = trained(module), model.params if isinstance(model, Tree) else {}
    if wrong := misfit(own, params):
        raise ValueError(f"The model is not one of this module: {wrong}.")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(torch.tensor(np.asarray(params[name])))
    return module


def misfit(own: dict[str, torch.nn.Parameter], params: Any) -> str | None:
    """How a point differs from a module's parameters."""
    theirs = set(params) if isinstance(params, dict) else set()
    if lacking := sorted(own.keys() - theirs):
        return f"it has no {lacking[0]!r}"
    if strange := sorted(theirs - own.keys()):
        return f"it has {strange[0]!r}, which the module does not train"
    for name, parameter in own.items():
        if tuple(params[name].shape) != tuple(parameter.shape):
            return (
                f"{name!r} has the shape {tuple(params[name].shape)} instead of "
                f"{tuple(parameter.shape)}"
            )
    return None
