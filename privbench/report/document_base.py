"""What every part of the document is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A part of the document: frozen, and without fields that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SummaryPart(Part):
    """Mean, percentiles and maximum of n errors."""

    n: int
    mean: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    max: float
