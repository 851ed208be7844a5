"""Types of the package, checked at run time as its modules are imported.

jaxtyping decorates every function: it ties the axes that a signature names to one another, for some
twenty-five microseconds a call. A signature that names none is left to beartype alone, which takes
one.
"""

import dataclasses
import functools
import inspect
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook

with_axes = jaxtyping.jaxtyped
without = beartype(conf=BeartypeConf(violation_type=TypeError))


def check_types_of(package: str) -> None:
    jaxtyping.jaxtyped = checked  # the name that the hook writes above functions and classes
    install_import_hook(package, "beartype.beartype")


def checked(it: Any = None, *, typechecker: Any) -> Any:
    if it is None:
        return functools.partial(checked, typechecker=typechecker)
    if inspect.isclass(it):
        if dataclasses.is_dataclass(it) and "__init__" in vars(it):
            it.__init__ = checked(it.__init__, typechecker=typechecker)
        return it
    if any(map(names_axes, it.__annotations__.values())):
        return with_axes(it, typechecker=typechecker)
    return without(it) if it.__annotations__ and is_known(it) else it


def is_known(it: Any) -> bool:
    """Whether its hints are there at run time: texts may name what only a type checker imports."""
    lazy = "TYPE_CHECKING" in it.__globals__
    return not lazy or not any(isinstance(hint, str) for hint in it.__annotations__.values())


def names_axes(hint: Any) -> bool:
    """Whether a type of arrays is in it somewhere."""
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(map(names_axes, get_args(hint)))
