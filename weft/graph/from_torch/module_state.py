"""What a module holds besides parameters and buffers, as it was before it was traced."""

from __future__ import annotations

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


def _differs(now: Any, had: Any) -> bool:
    return now is not had and not isinstance(now, PLAIN)


def _others(values: Any) -> list[Any]:
    return [value for value in values if not isinstance(value, PLAIN)]
