"""The base of all parts of a specification."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of a specification's parts; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")
