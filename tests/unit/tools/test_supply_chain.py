"""What is installed is what was locked, and the bill of materials lists exactly that."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import audit
import locked
import pytest
import sbom

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "requirements" / "runtime.txt"
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
HASH = "0" * 64


def by_hand(path: Path) -> dict[str, tuple[str, set[str]]]:
    """Read a lock in another way than the tools do."""
    found = {}
    for block in re.split(r"\n(?=\S)", path.read_text().strip()):
        name, version = re.match(r"([\w.-]+)==([^\s;\\]+)", block).groups()
        found[(name.lower(), version)] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", block))
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_dependency_is_locked_to_a_version_and_to_hashes(lock: Path) -> None:
    packages = locked.read(lock)

    assert {(one.name, one.version): set(one.sha256) for one in packages} == by_hand(lock)
    assert list(locked.faults_of_the_lock(packages)) == []


def test_the_image_and_the_set_up_install_by_hash_only() -> None:
    for name in ("Dockerfile", "tools/setup"):
        text = (ROOT / name).read_text()
        installs = [
            line for line in text.replace("\\\n", " ").splitlines() if "requirement " in line
        ]
        assert installs
        assert all("--require-hashes" in line for line in installs)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"aiohttp>=3 --hash=sha256:{HASH}", "aiohttp has no version of its own; write it with =="),
        ("aiohttp==3.14.5", "aiohttp has no sha256 hash; run make lock"),
    ],
)
def test_a_dependency_that_is_not_locked_is_told(tmp_path: Path, line: str, fault: str) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(line + "\n")

    assert list(locked.faults_of_the_lock(locked.read(lock))) == [fault]


def test_another_version_than_the_locked_one_is_told(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(f"pyyaml==1.0 --hash=sha256:{HASH}\nno-such-thing==1 --hash=sha256:{HASH}\n")

    wrong, absent = locked.faults_of_what_is_installed(locked.read(lock))

    assert wrong.startswith("pyyaml is installed as ")
    assert absent == "no-such-thing is locked and not installed; run make setup"


def test_a_file_that_was_changed_after_it_was_installed_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "thing-1.dist-info"
    folder.mkdir()
    (tmp_path / "thing.py").write_text("good = True\n")
    (folder / "METADATA").write_text("Name: thing\nVersion: 1\n")
    # sha256 of "good = True\n", by: sha256sum | xxd -r -p | base64 | tr "+/" "-_"
    digest = "OP-oTh6ad7MSkk7vez7yOVhd8b9oMIWMlqD8hC-JF-w"
    (folder / "RECORD").write_text(f"thing.py,sha256={digest},12\n")
    found = metadata.PathDistribution(folder)
    good = list(locked.changed_files(found))

    (tmp_path / "thing.py").write_text("good = None\n")

    assert (good, list(locked.changed_files(found))) == ([], ["thing.py"])


def test_a_known_fault_is_told_and_what_is_unknown_is_not_called_good() -> None:
    report = [
        {"name": "a", "version": "1", "vulns": []},
        {
            "name": "b",
            "version": "2",
            "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1", "3.0"]}],
        },
        {"name": "c", "skip_reason": "Dependency not found on PyPI"},
    ]

    known, unknown = audit.read_report(report)

    assert known == ["b 2 has PYSEC-1, mended in 2.1, 3.0; update it with make lock"]
    assert unknown == ["c"]


def test_the_bill_of_materials_lists_every_locked_package_with_its_hashes() -> None:
    command = [sys.executable, "tools/sbom.py"]
    first, second = [
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout for _ in range(2)
    ]
    bill = json.loads(first)

    listed = {
        (one["name"], one["version"]): {
            entry["content"] for place in one["externalReferences"] for entry in place["hashes"]
        }
        for one in bill["components"]
    }
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert listed == by_hand(LOCK)
    assert {one["purl"] for one in bill["components"]} >= {
        "pkg:pypi/kopf@" + metadata.version("kopf")
    }
    here = [one for one in locked.read(LOCK) if one.is_for_here]
    licensed = {one["name"] for one in bill["components"] if one.get("licenses")}
    assert {one.name for one in here} <= licensed
    assert first == second


def test_the_bill_is_made_from_the_projects_own_name_and_version() -> None:
    made = sbom.bom(ROOT / "pyproject.toml", LOCK)

    component = made.metadata.component
    assert component is not None
    assert (component.name, component.version) == (
        "vgpu-operator",
        metadata.version("vgpu-operator"),
    )
