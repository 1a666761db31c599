"""Stands in for the generated module of this name, so that the logic runs under any Python."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Err(Exception):
    value: object
