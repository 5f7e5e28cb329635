"""HAMi's ``device-config.yaml`` is read unchanged, and wrong fields are found by line."""

import pathlib
from typing import Any

import pytest

from support import json_patch, pods
from vgpu_operator.cli import run
from vgpu_operator.cli.cluster import scheduler_config
from vgpu_operator.flows import admit
from vgpu_operator.model import device_config, errors, settings
from vgpu_operator.vendors import records, registry, requests

DEFAULT = pathlib.Path(__file__).parents[2] / "golden" / "hami-device-config.yaml"


def built(text: str, **values: Any) -> settings.Settings:
    return settings.build(device_config.merged(values, device_config.decode(text)))


def test_the_charts_document_is_our_default() -> None:
    # The chart writes out the name that an empty field of ours stands for.
    slices = {"enflame": {"resourceNameDRSGCU": "enflame.com/drs-gcu"}}

    assert built(DEFAULT.read_text()) == settings.build({"vendors": slices})


def test_every_vendor_of_ours_is_a_section_of_the_document() -> None:
    said = device_config.vendor_values(device_config.decode(DEFAULT.read_text()))

    assert said.keys() == settings.VendorSettings.model_fields.keys()


def test_what_only_plugins_read_is_read_and_left_alone() -> None:
    document = device_config.decode(
        """
nvidia:
  deviceSplitCount: 4
  disableCoreLimit: true
  knownMigGeometries:
    - models: [A30]
      allowedGeometries:
        - - {name: 1g.6gb, core: 25, memory: 6144, count: 4}
        - - {name: 4g.24gb, memory: 24576, count: 1}
nodeconfig:
  - name: node-a
    operatingmode: mig
    devicesplitcount: 5
    filterdevices: {uuid: [GPU-a0], index: [1]}
"""
    )

    assert document.nvidia is not None
    assert document.nvidia.device_split_count == 4
    ((first,), _) = document.nvidia.known_mig_geometries[0].allowed_geometries
    assert (first.name, first.count) == ("1g.6gb", 4)
    assert document.nodeconfig[0].filterdevices is not None
    assert document.nodeconfig[0].filterdevices.index == (1,)
    assert device_config.vendor_values(document) == {"nvidia": {}}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param(
            "nvidia:\n  memoryFactor: 1\n  memoryFaktor: 2\n",
            "line 3, nvidia.memoryFaktor: HAMi's device configuration has no such field",
            id="an unknown field",
        ),
        pytest.param(
            "# a remark\n\nnvidea: {}\n",
            "line 3, nvidea: HAMi's device configuration has no such field",
            id="an unknown section",
        ),
        pytest.param(
            "hygon:\n  memoryFactor: many\n",
            "line 2, hygon.memoryFactor: Input should be a valid integer, "
            "unable to parse string as an integer",
            id="a word where a number is wanted",
        ),
        pytest.param(
            "vnpus:\n  configs:\n  - commonWord: A\n    memoryAllocatable: 1\n    "
            "memoryCapacity: 1\n    templates:\n    - name: t\n      memory: 0\n",
            "line 8, vnpus.configs[0].templates[0].memory: "
            "Input should be greater than or equal to 1",
            id="deep in a list",
        ),
        pytest.param(
            "vnpus:\n- commonWord: A\n  memoryAllocatable: 1\n",
            "line 2, vnpus.configs[0].memoryCapacity: Field required",
            id="a field is missing in the older form",
        ),
        pytest.param(
            "iluvatars:\n- commonWord: A\n- commonWord: A\n",
            "line 1, iluvatars: commonWord 'A' is given twice",
            id="one chip twice",
        ),
        pytest.param(
            "iluvatars:\n- commonWord: MR,V100\n",
            "line 2, iluvatars[0].commonWord: String should match pattern "
            "'^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$'",
            id="a word that is no part of a key",
        ),
        pytest.param(
            "nvidia:\n  deviceMemoryScaling: .inf\n",
            "line 2, nvidia.deviceMemoryScaling: Input should be a finite number",
            id="an infinite number",
        ),
        pytest.param(
            "nodeconfig:\n- name: a\n  devicecorescaling: .nan\n",
            "line 3, nodeconfig[0].devicecorescaling: Input should be a finite number",
            id="no number of a node",
        ),
        pytest.param(
            "nvidia:\n  deviceSplitCount: 2147483648\n",
            "line 2, nvidia.deviceSplitCount: Input should be less than or equal to 2147483647",
            id="more than HAMi counts",
        ),
        pytest.param(
            "amd:\n  resourceCountName: cpu\n",
            "line 2, amd.resourceCountName: 'cpu' is no name of an extended resource: "
            "write DOMAIN/NAME, as nvidia.com/gpu",
            id="a name that never counts",
        ),
        pytest.param(
            "cambricon:\n  resourceCountName: nvidia.com/gpu\n",
            "line 2, cambricon.resourceCountName: nvidia.com/gpu is nvidia.resourceCountName "
            "already; give each resource a name of its own",
            id="another vendor's name",
        ),
        pytest.param(
            "amd: {}\nnvidia:\n  resourceCountName: nvidia.com/gpumem\n",
            "line 3, nvidia.resourceCountName: nvidia.com/gpumem is nvidia.resourceMemoryName "
            "already; give each resource a name of its own",
            id="two meanings of one vendor",
        ),
        pytest.param(
            "nvidia: 7\n",
            "line 1, nvidia: Input should be a valid dictionary or instance of NvidiaDocument",
            id="no mapping",
        ),
    ],
)
def test_a_wrong_field_is_named_by_path_and_line(text: str, wrong: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        device_config.decode(text)

    assert str(caught.value) == f"it is wrong at {wrong}"


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(errors.SettingsError, match=r"line 2, amd\.x: .*; line 4, biren\.y: "):
        device_config.decode("amd:\n  x: 1\nbiren:\n  y: 1\n")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("nvidia: [", "line 2: it is no YAML: "),
        ("- nvidia\n", "it must hold a mapping, not a list"),
        (
            "nvidia:\n  defaultCores: 1\n  defaultCores: 2\n",
            "line 3: defaultCores is already given in line 2",
        ),
        ("a: &a [*a]", "line 1: [*]a stands within &a itself"),
        ("[" * 5000, "line 1: lists and objects are nested deeper than 100 levels"),
    ],
)
def test_what_is_no_such_document_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(errors.SettingsError, match=wrong):
        device_config.decode(text)


@pytest.mark.parametrize("text", ["", "nvidia:\n", "nvidia:\n  resourceCountName:\n"])
def test_what_has_no_value_is_absent(text: str) -> None:
    assert built(text) == settings.Settings()


def test_a_memory_factor_of_0_behaves_as_1() -> None:
    found = built("nvidia: {memoryFactor: 0}\nhygon: {memoryFactor: 0}\n").vendors

    assert (found.nvidia.memory_factor, found.hygon.memory_factor) == (1, 1)


def test_our_own_file_wins_field_by_field() -> None:
    found = built(
        "nvidia: {defaultMemory: 10, defaultCores: 10}\nvnpus: {hamiVnpuCore: true}\n",
        vendors={"nvidia": {"defaultMemory": 20}, "ascend": {"enabled": True}},
        schedulerName="mine",
    )

    assert (found.vendors.nvidia.default_memory, found.vendors.nvidia.default_cores) == (20, 10)
    assert (found.vendors.ascend.enabled, found.vendors.ascend.hami_vnpu_core) == (True, True)
    assert found.scheduler_name == "mine"


def test_the_command_line_reads_both_files(tmp_path: pathlib.Path) -> None:
    ours, theirs = tmp_path / "ours.yaml", tmp_path / "theirs.yaml"
    ours.write_text("vendors: {iluvatar: {enabled: true}}\n")
    theirs.write_text("iluvatars:\n- commonWord: BI-V999\n")

    found = run.load_settings(ours, device_config=theirs)

    assert [chip.common_word for chip in found.vendors.iluvatar.chips] == ["BI-V999"]
    assert found.vendors.iluvatar.enabled


def test_the_command_line_names_the_file_that_is_wrong(tmp_path: pathlib.Path) -> None:
    theirs = tmp_path / "theirs.yaml"
    theirs.write_text("amd:\n  count: 1\n")

    with pytest.raises(errors.SettingsError) as caught:
        run.load_settings(None, device_config=theirs)

    assert str(caught.value).startswith(f"{theirs}: it is wrong at line 2, amd.count: ")


RENAMED = """
nvidia: {resourceCountName: acme.io/gpu, resourceMemoryName: acme.io/gpumem}
iluvatars:
- {commonWord: MR-V100, resourceCountName: acme.io/mr, resourceMemoryName: acme.io/mr-mem}
vnpus:
  configs:
  - commonWord: Ascend310P
    resourceName: acme.io/npu
    resourceMemoryName: acme.io/npu-mem
    memoryAllocatable: 21527
    memoryCapacity: 24576
    templates: [{name: vir01, memory: 3072}]
"""


@pytest.mark.parametrize(
    ("limits", "keyword", "memory_mib"),
    [
        ({"acme.io/gpu": "1", "acme.io/gpumem": "4000"}, "NVIDIA", 4000),
        ({"acme.io/mr": "1", "acme.io/mr-mem": "16"}, "MR-V100", 4096),
        ({"acme.io/npu": "1", "acme.io/npu-mem": "2000"}, "Ascend310P", 3072),
    ],
)
def test_renamed_resources_reach_webhook_filter_and_managed_resources(
    limits: dict[str, str], keyword: str, memory_mib: int
) -> None:
    configured = built(
        RENAMED, vendors={"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}
    )
    vendors = registry.build(configured)
    raw = pods.pod(pods.container() | {"resources": {"limits": limits}})

    verdict = admit.admit(raw, settings=configured, vendors=vendors)
    wish = requests.pod_request(json_patch.apply(raw, verdict.patch), vendors, aliases={})
    node = records.node_record(
        {"metadata": {"name": "n"}, "status": {"allocatable": {next(iter(limits)): "4"}}}, vendors
    )
    managed = scheduler_config.scheduler_configuration(
        scheduler_name="s",
        extender_url="http://127.0.0.1:1",
        managed_resources=[name for vendor in vendors for name in vendor.spec.resources],
    )

    assert verdict.allowed
    assert [(d.vendor, d.memory_mib) for c in wish.containers for d in c.devices] == [
        (keyword, memory_mib)
    ]
    assert node.allocatable[keyword] == 4
    names = {entry["name"] for entry in managed["extenders"][0]["managedResources"]}
    assert names >= limits.keys()
    assert "nvidia.com/gpu" not in names
