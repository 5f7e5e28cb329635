"""What a user may write, from YAML to the card: one small cluster for each feature."""

import json
import textwrap

import pytest

CARD = {"count": 10, "devmem": 10000, "devcore": 100, "type": "NVIDIA-NVIDIA A10", "health": True}


@pytest.fixture
def simulated(command_line, tmp_path):
    """Place the pods of a YAML text; return what became of each, by name."""

    def run(text, **files):
        options = []
        for option, content in files.items():
            path = tmp_path / f"{option}.yaml"
            path.write_text(textwrap.dedent(content), encoding="utf-8")
            options += [f"--{option.replace('_', '-')}", str(path)]
        file = tmp_path / "all.yaml"
        file.write_text(text, encoding="utf-8")
        command_line.run("simulate", "-f", str(file), "-o", "json", *options)
        if not command_line.out:
            return command_line.err
        return {item["pod"]: item for item in json.loads(command_line.out)["items"]}

    return run


def node(annotations, **counts):
    amounts = {name.replace("__", "/").replace("_", "."): value for name, value in counts.items()}
    raw = {
        "kind": "Node",
        "metadata": {"name": "node-a", "annotations": annotations},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    return json.dumps(raw)


def nvidia(*cards, **annotations):
    rows = [CARD | {"id": f"GPU-{n}", "index": n} | card for n, card in enumerate(cards)]
    texts = {"hami.io/node-nvidia-register": json.dumps(rows)}
    texts |= {f"hami.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return node(texts, nvidia_com__gpu=10 * len(cards))


def pod(name, text, annotations=None):
    """Return a pod whose containers are those of a YAML text."""
    head = json.dumps({"name": name, "annotations": annotations or {}})
    return f"kind: Pod\nmetadata: {head}\nspec:\n{textwrap.indent(textwrap.dedent(text), '  ')}"


def main(**limits):
    amounts = {name.replace("__", "/").replace("_", "."): value for name, value in limits.items()}
    return f"containers: [{{name: main, resources: {{limits: {json.dumps(amounts)}}}}}]"


def two_cards(name, annotations=None):
    return pod(name, main(nvidia_com__gpu=2, nvidia_com__gpumem=1000), annotations)


def documents(*texts):
    return "\n---\n".join(texts)


def shares(item):
    assert item["fits"], item["message"]
    return [(share["container"], share["card"], share["memoryMiB"]) for share in item["shares"]]


def cards(item):
    return {card for _, card, _ in shares(item)}


FOUR = [{"numa": 0}, {"numa": 0}, {"numa": 1}, {"numa": 1}]


def test_numa_bind_never_mixes_numa_nodes(simulated):
    bind = {"nvidia.com/numa-bind": "true"}
    three = pod("p2", main(nvidia_com__gpu=3, nvidia_com__gpumem=1000), bind)

    found = simulated(documents(nvidia(*FOUR), two_cards("p1", bind), three))

    assert cards(found["p1"]) == {"GPU-2", "GPU-3"}
    assert not found["p2"]["fits"]
    assert "NumaNotFit" in found["p2"]["rejections"]["node-a"]


def test_topology_aware_takes_the_pair_with_the_best_link(simulated):
    links = [
        {"uuid": f"GPU-{a}", "score": {f"GPU-{b}": 10 for b in range(4) if b != a}}
        for a in range(4)
    ]
    links[0]["score"]["GPU-2"] = links[2]["score"]["GPU-0"] = 300
    aware = {"hami.io/gpu-scheduler-policy": "topology-aware"}

    found = simulated(
        documents(nvidia(*FOUR, node_nvidia_score=json.dumps(links)), two_cards("p1", aware))
    )

    assert cards(found["p1"]) == {"GPU-0", "GPU-2"}


def test_a_cordoned_card_takes_nobody_new(simulated):
    text = documents(nvidia({}, {}, device_cordon="GPU-1"), two_cards("p1"))

    found = simulated(documents(text, pod("p2", main(nvidia_com__gpu=1, nvidia_com__gpumem=1))))

    assert "1/2 CardCordoned" in found["p1"]["rejections"]["node-a"]
    assert cards(found["p2"]) == {"GPU-0"}


def test_mig_grants_a_profile_of_the_allow_list(simulated):
    """2g.10gb is on HAMi's list for this model, 1g.10gb is not; 1g.5gb has 4864 MiB."""

    def profile(name, mib, core, *starts, size):
        places = [{"start": start, "size": size} for start in starts]
        return {
            "name": name,
            "memoryMB": mib,
            "core": core,
            "sliceCount": len(starts),
            "placements": places,
        }

    profiles = [
        profile("1g.5gb", 4864, 14, *range(7), size=1),
        profile("1g.10gb", 9000, 14, 0, 2, 4, 6, size=2),
        profile("2g.10gb", 9856, 28, 0, 2, 4, size=2),
        profile("3g.20gb", 20096, 42, 0, 4, size=4),
    ]
    card = {"mode": "mig", "devmem": 40960, "migProfiles": profiles}
    card["type"] = "NVIDIA-NVIDIA A100-SXM4-40GB"
    asked = {"p1": 4864, "p2": 4865, "p3": 20097}

    found = simulated(
        documents(
            nvidia(card),
            *(
                pod(name, main(nvidia_com__gpu=1, nvidia_com__gpumem=mib))
                for name, mib in asked.items()
            ),
        )
    )

    assert shares(found["p1"]) == [("main", "GPU-0", 4864)]
    assert shares(found["p2"]) == [("main", "GPU-0", 9856)]
    assert not found["p3"]["fits"]


def test_init_containers_and_sidecars_need_their_peak_not_their_sum(simulated):
    """Side-car 4096 beside init 8192 and, later, beside app 6144: at most 12288."""
    text = """
        initContainers:
        - name: side
          restartPolicy: Always
          resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096}}
        - name: init
          resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 8192}}
        containers:
        - name: app
          resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 6144}}
        """
    sizes = (12287, 12288)

    found = [simulated(documents(nvidia({"devmem": mib}), pod("p1", text))) for mib in sizes]

    assert [each["p1"]["fits"] for each in found] == [False, True]
    assert [name for name, _, _ in shares(found[1]["p1"])] == ["side", "init", "app"]


@pytest.mark.parametrize(
    ("state", "free_mib"), [({"terminated": {"exitCode": 0}}, 8000), ({"running": {}}, 2000)]
)
def test_memory_shrinks_when_init_containers_are_done_and_slots_stay(simulated, state, free_mib):
    """Init 8000 MiB on two cards, app 2000 on one, of 10000 and two slots each."""
    old = {
        "kind": "Pod",
        "metadata": {
            "name": "old",
            "annotations": {
                "hami.io/vgpu-node": "node-a",
                "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,8000,0:GPU-1,NVIDIA,8000,0:;"
                "GPU-0,NVIDIA,2000,0:;",
            },
        },
        "spec": {
            "nodeName": "node-a",
            "initContainers": [
                {"name": "init", "resources": {"limits": _nvidia_limits(2, 8000)}},
            ],
            "containers": [{"name": "app", "resources": {"limits": _nvidia_limits(1, 2000)}}],
        },
        "status": {"phase": "Running", "initContainerStatuses": [{"name": "init", "state": state}]},
    }

    def newcomer(count, mib, slots):
        limits = main(nvidia_com__gpu=count, nvidia_com__gpumem=mib)
        two = nvidia({"count": slots}, {"count": slots})
        return simulated(documents(two, json.dumps(old), pod("new", limits)))["new"]

    assert newcomer(2, free_mib, 2)["fits"]
    assert not newcomer(2, free_mib + 1, 2)["fits"]
    assert newcomer(1, 1, 1)["rejections"] == {"node-a": "2/2 CardTimeSlicingExhausted"}


def _nvidia_limits(count, mib):
    return {"nvidia.com/gpu": count, "nvidia.com/gpumem": mib}


def test_a_pod_may_ask_several_vendors_even_in_one_container(simulated):
    notes = {
        "hami.io/node-nvidia-register": json.dumps([CARD | {"id": "GPU-0"}]),
        "hami.io/node-dcu-register": "DCU-0,4,16384,100,DCU-K100_AI,0,true,0,hami-core:",
    }
    text = """
        containers:
        - name: nvidia
          resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1000}}
        - name: none
        - name: both
          resources:
            limits:
              nvidia.com/gpu: 1
              nvidia.com/gpumem: 2000
              hygon.com/dcunum: 1
              hygon.com/dcumem: 3000
              hygon.com/dcucores: 10
        """
    counts = {"nvidia_com__gpu": 10, "hygon_com__dcunum": 4}

    found = simulated(documents(node(notes, **counts), pod("p1", text)))

    assert shares(found["p1"]) == [
        ("nvidia", "GPU-0", 1000),
        ("both", "GPU-0", 2000),
        ("both", "DCU-0", 3000),
    ]


ASCEND = "vendors: {ascend: {enabled: true}}"


def ascend_node(chip, amount, **card):
    rows = [
        {"id": f"NPU-{n}", "index": n, "count": 4, "type": chip, "health": True} | card
        for n in range(amount)
    ]
    return node(
        {f"hami.io/node-register-{chip}": json.dumps(rows)}, **{f"huawei_com__{chip}": 4 * amount}
    )


def test_ascend_memory_becomes_a_template(simulated):
    """310P has templates of 3072, 6144 and 12288 MiB in HAMi's chart."""
    limits = {"huawei_com__Ascend310P": 1, "huawei_com__Ascend310P-memory": 4000}
    text = documents(
        ascend_node("Ascend310P", 1, devmem=21527, devcore=8), pod("p1", main(**limits))
    )

    assert shares(simulated(text, config=ASCEND)["p1"]) == [("main", "NPU-0", 6144)]


def test_ascend_910c_comes_in_pairs(simulated):
    """Cards 0 and 1 are one module, 2 and 3 the next."""
    chip = ascend_node("Ascend910C", 4, devmem=65536, devcore=20)
    pods = [pod(f"p{n}", main(huawei_com__Ascend910C=n)) for n in (1, 3)]

    found = simulated(documents(chip, *pods), config=ASCEND)

    assert cards(found["p1"]) in ({"NPU-0", "NPU-1"}, {"NPU-2", "NPU-3"})
    assert "comes in pairs" in found["p3"]["message"]


def test_a_pod_that_asks_for_a_chip_that_is_switched_off_is_told(simulated):
    chip = ascend_node("Ascend310P", 1, devmem=21527, devcore=8)

    found = simulated(documents(chip, pod("p1", main(huawei_com__Ascend310P=1))))

    assert not found["p1"]["fits"]
    assert found["p1"]["message"] == "it asks for Ascend310P, which the settings leave out"


def test_pods_follow_one_another_on_a_node_of_the_forerunners_dialect(simulated):
    """Each is served before the next one, as where no clock runs."""
    register = (
        "GPU-0,10,10000,100,NVIDIA-Tesla P4,0,true:GPU-1,10,10000,100,NVIDIA-Tesla P4,0,true:"
    )
    old = node({"4pd.io/node-nvidia-register": register}, nvidia_com__gpu=20)

    found = simulated(documents(old, *(two_cards(f"p{n}") for n in range(3))))

    assert [cards(found[f"p{n}"]) for n in range(3)] == [{"GPU-0", "GPU-1"}] * 3


RENAMED = """
    nvidia:
      resourceCountName: example.com/vgpu
      resourceMemoryName: example.com/vgpumem
      resourceCoreName: example.com/vgpucores
      memoryFactor: 10
    """


def test_resources_may_have_other_names(simulated):
    """Case 180, the part of it that is no chart."""
    rows = json.dumps([CARD | {"id": "GPU-0"}])
    renamed = node({"hami.io/node-nvidia-register": rows}, example_com__vgpu=10)
    pods = [
        pod("p1", main(example_com__vgpu=1, example_com__vgpumem=100)),
        pod("p2", main(nvidia_com__gpu=1)),
    ]

    found = simulated(documents(renamed, *pods), device_config=RENAMED)

    assert shares(found["p1"]) == [("main", "GPU-0", 1000)]
    assert "p2" not in found, "it asks for nothing that anybody here gives"


def test_a_wrong_field_of_the_device_configuration_is_named_with_its_line(simulated):
    message = simulated(nvidia({}), device_config="nvidia:\n  memoryFactr: 3\n")

    assert "line 2, nvidia.memoryFactr: HAMi's device configuration has no such field" in message


def test_cases_bring_their_own_device_configuration(command_line):
    assert command_line.run("simulate", "--cases", "a", "--device-config", "b") == 2
