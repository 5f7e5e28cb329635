"""HAMi's ``device-config.yaml``, read as it stands.

Source: HAMi v2.10.0, ``charts/hami/templates/scheduler/device-configmap.yaml``.
The sections of the vendors are those of our settings. What only HAMi's device
plugins read is checked here and then left alone. A field without a value
counts as absent.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pydantic

from vgpu_operator.model import errors, settings, yaml_text
from vgpu_operator.model.vendor_settings import resources, section
from vgpu_operator.model.vendor_settings.amd import AmdSettings
from vgpu_operator.model.vendor_settings.ascend import CHIPS as ASCEND_CHIPS
from vgpu_operator.model.vendor_settings.ascend import AscendChip
from vgpu_operator.model.vendor_settings.awsneuron import AwsNeuronSettings
from vgpu_operator.model.vendor_settings.biren import BirenNames
from vgpu_operator.model.vendor_settings.cambricon import CambriconSettings
from vgpu_operator.model.vendor_settings.enflame import EnflameNames
from vgpu_operator.model.vendor_settings.hygon import HygonSettings
from vgpu_operator.model.vendor_settings.iluvatar import IluvatarChip
from vgpu_operator.model.vendor_settings.kunlun import KunlunNames
from vgpu_operator.model.vendor_settings.metax import MetaxSettings
from vgpu_operator.model.vendor_settings.mthreads import MthreadsNames
from vgpu_operator.model.vendor_settings.nvidia import NvidiaSettings
from vgpu_operator.model.vendor_settings.vastai import VastaiNames


class MigInstances(section.Section):
    """That many instances of one MIG profile."""

    name: str
    core: int = pydantic.Field(default=0, ge=0)
    memory: int = pydantic.Field(ge=0)
    count: int = pydantic.Field(ge=0)


class MigGeometries(section.Section):
    """How HAMi before 2.10 cut some models."""

    models: tuple[str, ...]
    allowed_geometries: tuple[tuple[MigInstances, ...], ...]


class NvidiaDocument(NvidiaSettings):
    """``nvidia``: our section, and what only the device plugin reads."""

    device_split_count: int = pydantic.Field(default=10, ge=0, le=section.LARGEST)
    device_memory_scaling: float = pydantic.Field(default=1, ge=0)
    device_core_scaling: float = pydantic.Field(default=1, ge=0)
    pre_configured_device_memory: int = pydantic.Field(default=0, ge=0, le=section.LARGEST)
    enable_numa_topology: bool = False
    lib_cuda_log_level: int = pydantic.Field(default=1, ge=0, le=4)
    disable_core_limit: bool = False
    known_mig_geometries: tuple[MigGeometries, ...] = ()


class VnpusDocument(section.Section):
    """``vnpus``: Ascend; a plain list of chips is HAMi's older form of it."""

    hami_vnpu_core: bool = False
    configs: tuple[AscendChip, ...] = ASCEND_CHIPS

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return {"configs": value} if isinstance(value, list) else value

    @pydantic.field_validator("configs")
    @classmethod
    def _words_differ(cls, chips: tuple[AscendChip, ...]) -> tuple[AscendChip, ...]:
        section.refuse_twins([chip.common_word for chip in chips])
        return chips


class FilteredDevices(pydantic.BaseModel):
    """Cards that a node's plugin leaves out."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    uuid: tuple[str, ...] = ()
    index: tuple[int, ...] = ()


class NodeConfig(pydantic.BaseModel):
    """One node's settings of its NVIDIA plugin, spelt as in the plugin's own file."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    operatingmode: str = ""
    devicesplitcount: int | None = pydantic.Field(default=None, ge=0, le=section.LARGEST)
    devicememoryscaling: float | None = pydantic.Field(default=None, ge=0)
    devicecorescaling: float | None = pydantic.Field(default=None, ge=0)
    preconfigureddevicememory: int | None = pydantic.Field(default=None, ge=0, le=section.LARGEST)
    enablenumatopology: bool | None = None
    enablegetpreferredallocation: bool | None = None
    libcudaloglevel: int | None = pydantic.Field(default=None, ge=0, le=4)
    migstrategy: str = ""
    filterdevices: FilteredDevices | None = None


class Document(section.Section):
    """The whole file. A section that is absent leaves ours as it is."""

    nvidia: NvidiaDocument | None = None
    cambricon: CambriconSettings | None = None
    hygon: HygonSettings | None = None
    enflame: EnflameNames | None = None
    mthreads: MthreadsNames | None = None
    metax: MetaxSettings | None = None
    kunlun: KunlunNames | None = None
    awsneuron: AwsNeuronSettings | None = None
    amd: AmdSettings | None = None
    vastai: VastaiNames | None = None
    biren: BirenNames | None = None
    vnpus: VnpusDocument | None = None
    iluvatars: tuple[IluvatarChip, ...] | None = None
    nodeconfig: tuple[NodeConfig, ...] = ()

    @pydantic.field_validator("iluvatars")
    @classmethod
    def _words_differ(cls, chips: tuple[IluvatarChip, ...] | None) -> object:
        section.refuse_twins([chip.common_word for chip in chips or ()])
        return chips


def decode(text: str) -> Document:
    """Read the file.

    Raises:
        SettingsError: it is no YAML mapping, or a field is unknown or wrong;
            one sentence that names the line and the path of each.
    """
    written = yaml_text.read(text)
    values = {} if written.value is None else _without_nulls(written.value)
    if not isinstance(values, Mapping):
        raise errors.SettingsError(f"it must hold a mapping, not a {type(values).__name__}")
    try:
        document = Document.model_validate(values)
    except pydantic.ValidationError as fault:
        wrong = section.told(_fault(error, written) for error in fault.errors())
        raise errors.SettingsError(f"it is wrong at {wrong}") from fault
    clashes = "; ".join(_clashes(document, written))
    if clashes:
        raise errors.SettingsError(f"it is wrong at {clashes}")
    return document


def merged(values: Mapping[str, Any], document: Document) -> dict[str, Any]:
    """Return settings with the document's vendors under them: what ``values`` names wins."""
    own = values.get("vendors") or {}
    if not isinstance(own, Mapping):
        return dict(values)  # refused when the settings are built
    vendors: dict[str, Any] = dict(own)
    for name, fields in vendor_values(document).items():
        mine = own.get(name) or {}
        vendors[name] = {**fields, **mine} if isinstance(mine, Mapping) else mine
    return {**values, "vendors": vendors}


def vendor_values(document: Document) -> dict[str, dict[str, Any]]:
    """Return what the document says, as ``vendors`` of our settings holds it."""
    said = document.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    found = {name: said[name] for name in Document.model_fields if name in said}
    found.pop("nodeconfig", None)
    if "nvidia" in found:
        ours = {field.alias or name for name, field in NvidiaSettings.model_fields.items()}
        found["nvidia"] = {name: said["nvidia"][name] for name in said["nvidia"] if name in ours}
    if "vnpus" in found:
        found["ascend"] = found.pop("vnpus")
    if "iluvatars" in found:
        found["iluvatar"] = {"chips": found.pop("iluvatars")}
    return found


def _without_nulls(value: Any) -> Any:
    """Return the value without the fields of mappings that have none."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _fault(error: Any, written: yaml_text.Document) -> tuple[str, str]:
    """Return where something is wrong, and what."""
    what = section.complaint(error, unknown="HAMi's device configuration has no such field")
    path = error["loc"]
    return f"line {written.line_of(path)}, {_shown(path)}", what


def _clashes(document: Document, written: yaml_text.Document) -> Iterator[str]:
    """Yield a sentence for each name that a resource of another section has too.

    Ascend's and Iluvatar's are looked at with our own settings, which switch them on.
    """
    sections = settings.VendorSettings.model_validate(vendor_values(document))
    for name, *paths in resources.twins(resources.named(sections)):
        places = [tuple(path.split(".")) for path in paths]
        here = max(places, key=lambda place: (written.holds(place), written.line_of(place)))
        other = next(place for place in places if place != here)
        yield (
            f"line {written.line_of(here)}, {_shown(here)}: {name} is {_shown(other)} already; "
            "give each resource a name of its own"
        )


def _shown(path: yaml_text.Path) -> str:
    """Write a path as people do.

    >>> _shown(("vnpus", "configs", 0, "aiCore"))
    'vnpus.configs[0].aiCore'
    """
    words = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(words).removeprefix(".") or "the file"
