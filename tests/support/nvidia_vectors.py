"""The recorded NVIDIA cases, and our settings for each."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from vgpu_operator.model import settings

FOLDER = pathlib.Path(__file__).parent.parent / "vectors"


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of one file of ``tests/vectors``."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def case_settings(case: Mapping[str, Any]) -> settings.Settings:
    """Return the settings that a case was recorded under."""
    flags = case.get("flags") or {}
    values: dict[str, Any] = {
        "vendors": {"nvidia": (flags.get("device_config") or {}).get("nvidia", {})}
    }
    if "force_overwrite_default_scheduler" in flags:
        values["forceOverwriteDefaultScheduler"] = flags["force_overwrite_default_scheduler"]
    return settings.build(values)
