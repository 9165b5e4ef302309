"""What a module holds besides parameters and buffers: as it was before it was traced, and whether it still is so; and
a twin of it to trace."""

from __future__ import annotations

import copy
import sys
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from weft.graph.run.fast_model import SIZE
from weft.ir.errors import UnsupportedError

#: Values that are compared by what they say.
PLAIN = (type(None), bool, int, float, complex, str)
#: Dictionaries of a module whose tensors are its parameters and buffers.
_TABLES = ("_parameters", "_buffers")


class ChangesItselfError(UnsupportedError):
    """A call of the model leaves it another: the next one is another program."""

    def __init__(self) -> None:
        super().__init__("a model that changes itself")


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

    def has_changed(self) -> bool:
        """Whether something was assigned, put into a container, or taken away."""
        pairs = [(m.__dict__, had) for m, had in zip(self._modules, self._attributes)]
        pairs += [(now, had) for now, had in self._containers if isinstance(now, dict)]
        if any(now.keys() != had.keys() or any(_differs(now[key], had[key]) for key in had) for now, had in pairs):
            return True
        rows = [(list(now), list(had)) for now, had in self._containers if not isinstance(now, dict)]
        if any(len(now) != len(had) or any(map(_differs, now, had)) for now, had in rows):
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
    """Whether a value is another; zeros with another sign are."""
    return now is not had and not (type(now) is type(had) and isinstance(now, PLAIN) and repr(now) == repr(had))


#: An object that a dictionary of a module has under a key, or a list at a place; under `SIZE`, how many it has.
Row = tuple[Any, Any, Any]


class ModuleShape:
    """Which modules ``module`` has in it, where parameters and buffers are missing, what is training, and all other
    attributes and hooks: a traced program takes it for granted."""

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
        self.rows += [(m._modules, SIZE, len(m._modules)) for m in modules]
        self._attributes = [row for m in modules for row in _attribute_rows(m)]
        self._flags = [m.__dict__ for m in modules if "training" in m.__dict__]

    def is_current(self) -> bool:
        return all(_found(table, key) is value for table, key, value in self.rows)

    def has_attributes(self) -> bool:
        """Whether attributes and hooks are as they were."""
        return not any(_differs(_found(table, key), value) for table, key, value in self._attributes)

    def training(self) -> tuple[bool, ...]:
        """The flags, in order."""
        return tuple([table.get("training", False) for table in self._flags])

    def watched(self) -> list[Row]:
        """All of it, with the flags as they are now."""
        return [*self.rows, *self._attributes, *((table, "training", table.get("training")) for table in self._flags)]


#: Dictionaries of a module that are looked at otherwise, or that a call without gradients does not ask.
_APART = {*_TABLES, "_modules", "training", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
          "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
          "_non_persistent_buffers_set", "_is_full_backward_hook", "_is_hf_initialized",
          "_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs"}  # fmt: skip
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: Containers in containers that are looked at.
_DEEP = 3


def _attribute_rows(module: Any) -> Iterator[Row]:
    tensor = sys.modules["torch"].Tensor
    yield module.__dict__, SIZE, len(module.__dict__)
    for name, value in module.__dict__.items():
        if name not in _APART and not isinstance(value, tensor):
            if name not in _HOOKS:  # nobody puts another table in their place
                yield module.__dict__, name, value
            yield from _rows_within(value, _DEEP)


def _rows_within(value: Any, deep: int) -> Iterator[Row]:
    """How many a list or dictionary has, before which."""
    if not deep or not isinstance(value, (list, dict)):
        return
    yield value, SIZE, len(value)
    for key, one in enumerate(value) if isinstance(value, list) else value.items():
        yield value, key, one
        yield from _rows_within(one, deep - 1)


def _found(table: Any, key: Any) -> Any:
    """What a row is about now; `SIZE` where there is nothing."""
    if key is SIZE:
        return len(table)
    if isinstance(table, list):
        return table[key] if key < len(table) else SIZE
    return table.get(key, SIZE)
