"""What a module holds besides parameters and buffers: as it was before it was traced, and whether it still is so; and
a twin of it to trace."""

from __future__ import annotations

import copy
import types
from collections import OrderedDict
from typing import Any

#: What an attribute may become while a model is traced, as it says nothing about tensors.
PLAIN = (type(None), bool, int, float, complex, str)
#: Dictionaries of a module whose tensors are its parameters and buffers.
_TABLES = ("_parameters", "_buffers")


class ModuleState:
    """Of ``module`` and all modules in it: attributes, and what their lists, sets and dicts hold."""

    def __init__(self, module: Any) -> None:
        self._modules = list(module.modules())
        self._attributes = [dict(m.__dict__) for m in self._modules]
        held = [value for had in self._attributes for name, value in had.items() if name not in _TABLES]
        self._containers: list[tuple[Any, Any]] = [
            (value, value.copy()) for value in held if isinstance(value, (list, set, dict))
        ]
        self._names = [self._keys(m) for m in self._modules]

    @staticmethod
    def _keys(module: Any) -> list[tuple[str, ...]]:
        return [tuple(getattr(module, table)) for table in (*_TABLES, "_modules")]

    def has_other_tensors(self) -> bool:
        """Whether something was assigned that is or may hold a tensor."""
        pairs = [(m.__dict__, had) for m, had in zip(self._modules, self._attributes)]
        pairs += [(now, had) for now, had in self._containers if isinstance(now, dict)]
        if any(_differs(now.get(key), had.get(key)) for now, had in pairs for key in now.keys() | had.keys()):
            return True
        rows = [(now, had) for now, had in self._containers if not isinstance(now, dict)]
        if any({id(v) for v in _others(now)} != {id(v) for v in _others(had)} for now, had in rows):
            return True
        return self._names != [self._keys(m) for m in self._modules]

    def restore(self) -> None:
        for module, had in zip(self._modules, self._attributes):
            for name in module.__dict__.keys() - had.keys():
                del module.__dict__[name]
            module.__dict__.update(had)
        for now, had in self._containers:
            if isinstance(now, list):
                now[:] = had
            else:
                now.clear()
                now.update(had)


def twin_of(module: Any) -> Any:
    """A module like ``module`` and of its tensors, with dictionaries, lists and modules of its own: others may call
    ``module`` while this one has other tensors in it. None where not all of it is in dictionaries."""
    modules = list(module.modules())
    if any(_is_strange(m) for m in modules):
        return None
    twins = {id(m): object.__new__(type(m)) for m in modules}
    for m in modules:
        twins[id(m)].__dict__.update({name: _own(value, twins) for name, value in m.__dict__.items()})
    return twins[id(module)]


def _is_strange(module: Any) -> bool:
    kinds = [kind for kind in type(module).__mro__ if kind is not object]
    is_own = all(isinstance(kind, type) and "__slots__" not in vars(kind) for kind in kinds)
    return not is_own or any(kind.__module__.startswith("torch.jit") for kind in kinds)


def _own(value: Any, twins: dict[int, Any]) -> Any:
    """A copy of what modules are found in, with twins in place of these."""
    if id(value) in twins:
        return twins[id(value)]
    if isinstance(value, types.MethodType) and id(value.__self__) in twins:
        return types.MethodType(value.__func__, twins[id(value.__self__)])
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _own(one, twins)) for key, one in value.items())
    if type(value) in (list, tuple):
        return type(value)(_own(one, twins) for one in value)
    return copy.copy(value) if type(value) is set else value


def _differs(now: Any, had: Any) -> bool:
    return now is not had and not isinstance(now, PLAIN)


def _others(values: Any) -> list[Any]:
    return [value for value in values if not isinstance(value, PLAIN)]


#: An object that a dictionary of a module has under a key.
Row = tuple[dict[str, Any], str, Any]


class ModuleShape:
    """Which modules ``module`` has in it, where parameters and buffers are missing, and what is training: a traced
    program takes it for granted."""

    def __init__(self, module: Any) -> None:
        modules = list(module.modules())
        #: all but the flags
        self.rows: list[Row] = [(m._modules, name, child) for m in modules for name, child in m._modules.items()]
        self.rows += [
            (table, name, None)
            for m in modules
            for table in (m._parameters, m._buffers)
            for name, tensor in table.items()
            if tensor is None
        ]
        self._flags = [m.__dict__ for m in modules if "training" in m.__dict__]

    def is_current(self) -> bool:
        return all(table.get(name, self) is value for table, name, value in self.rows)

    def training(self) -> tuple[bool, ...]:
        """The flags, in order."""
        return tuple([table.get("training", False) for table in self._flags])

    def watched(self) -> list[Row]:
        """All of it, with the flags as they are now."""
        return [*self.rows, *((table, "training", table.get("training")) for table in self._flags)]
