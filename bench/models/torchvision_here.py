"""torchvision beside a torch that its operators were not built for: these models need none of them."""

from __future__ import annotations

import re
import sys
from typing import Any

import torch

_MISSING = re.compile(r"operator torchvision::(\w+) does not exist")
#: Schemas live as long as this.
_schemas: list[Any] = []


def import_torchvision() -> Any:
    """torchvision; each operator it misses is given a schema, and the import tried again."""
    while True:
        try:
            import torchvision

            return torchvision
        except RuntimeError as error:
            found = _MISSING.search(str(error))
            if found is None:
                raise
            _define(found[1])


def _define(operator: str) -> None:
    if not _schemas:
        _schemas.append(torch.library.Library("torchvision", "FRAGMENT"))
    _schemas[0].define(f"{operator}(Tensor a) -> Tensor")
    for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
        del sys.modules[name]
