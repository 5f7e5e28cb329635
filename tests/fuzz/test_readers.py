"""No input makes a reader fail in another way than it says, take long, or ramble."""

import ast
import inspect
import pkgutil

import pytest

import vgpu_operator.wire
from fuzz import changes, judge, kept, rounds, targets

IN_CI_S = 8.0
"""What all readers together may take when nothing else is asked for."""

ROUND = 150
"""Examples between two looks at the clock."""

every_target = pytest.mark.parametrize("target", targets.ALL, ids=lambda target: target.name)


@every_target
def test_every_kept_input_is_read_or_refused_as_declared(target: targets.Target) -> None:
    inputs = kept.of(target.name)
    assert inputs, f"put an example into tests/fuzz/corpus/{target.name}"

    outcomes = {name: judge.judge(target, data) for name, data in inputs.items()}

    assert "read" in outcomes.values()


@every_target
def test_changed_and_random_inputs_are_read_or_refused_as_declared(target: targets.Target) -> None:
    inputs = list(kept.of(target.name).values())
    if target.is_json:
        drawn = changes.json_like([data for data in inputs if data[:1] == b"{"])
    else:
        drawn = changes.bytes_like(inputs, target.pieces)
    latest = b""

    def one(data: bytes) -> None:
        nonlocal latest
        latest = data
        judge.judge(target, data)

    budget_s = judge.seconds(IN_CI_S) / len(targets.ALL)
    try:
        rounds.rounds(drawn, one, budget_s=budget_s, at_once=ROUND)
    except BaseException:
        print(f"kept as {kept.keep(target.name, latest)}")
        raise


@every_target
@pytest.mark.parametrize("size", [2**18], ids=["256 KiB"])
def test_an_input_as_large_as_the_api_takes_costs_little(target: targets.Target, size: int) -> None:
    """All annotations of an object have 256 KiB together: no reader may take long for them."""
    for data in list(kept.of(target.name).values())[:4]:
        for unit in (data, data[: len(data) // 2]):
            judge.judge(target, _grown(unit, size))
    for piece in target.pieces:
        judge.judge(target, _grown(piece.encode("utf-8", "surrogatepass"), size))


def _grown(unit: bytes, size: int) -> bytes:
    return (unit * (size // max(1, len(unit)) + 1))[:size]


def test_every_decoder_of_the_protocol_is_fuzzed() -> None:
    """A new ``decode…`` or ``take…`` in ``wire`` needs a target."""
    source = inspect.getsource(targets)
    called = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    wanted = set()
    for module in pkgutil.iter_modules(vgpu_operator.wire.__path__):
        names = vars(__import__(f"vgpu_operator.wire.{module.name}", fromlist=["_"]))
        wanted |= {
            f"{module.name}.{name}"
            for name, value in names.items()
            if name.startswith(("decode", "take", "is_", "canonical", "written_on"))
            and inspect.isfunction(value)
            and value.__module__.endswith(module.name)
        }
    inside = {
        "kept_certificate.decoded",  # by kept_certificate.decode_secret
        "pod_devices.decode_entries",  # by shared_devices.decode
        "register_json.decode_device",  # by node_register.decode_register
        "quantity.is_plain_integer",  # by quantity.decode_plain_integer
    }

    assert wanted - inside <= called
