"""Write the bill of materials of the image: ``make sbom`` (CycloneDX 1.6, JSON).

It lists what ``requirements/runtime.txt`` locks, with every hash that may be
installed and the licence that the installed package states. The same lock gives
the same text: no time, no serial number.
"""

import importlib.metadata
import json
import sys
import tomllib
import uuid
from pathlib import Path

import locked
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

LOCK = Path("requirements/runtime.txt")


def main() -> int:
    """Write the text to the file that the first argument names, else to standard output."""
    text = written(bom(Path("pyproject.toml"), LOCK))
    if len(sys.argv) > 1:
        target = Path(sys.argv[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    else:
        sys.stdout.write(text)
    return 0


def written(made: Bom) -> str:
    """Return the bill as JSON, without the time at which it was made."""
    content = json.loads(JsonV1Dot6(made).output_as_string())
    del content["metadata"]["timestamp"]
    return json.dumps(content, indent=2) + "\n"


def bom(project_file: Path, lock: Path) -> Bom:
    """Return the bill of materials of the project with its locked packages."""
    project = tomllib.loads(project_file.read_text())["project"]
    licences = LicenseFactory()
    made = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, lock.read_text()))
    made.metadata.component = Component(
        name=project["name"],
        version=project["version"],
        type=ComponentType.APPLICATION,
        bom_ref=project["name"],
        licenses=[licences.make_from_string(project["license"])],
        purl=PackageURL("pypi", None, project["name"], project["version"]),
    )
    components = [component(package, licences) for package in locked.read(lock)]
    for one in components:
        made.components.add(one)
    made.register_dependency(made.metadata.component, components)
    return made


def component(package: locked.Package, licences: LicenseFactory) -> Component:
    """Return one package with every file of it that may be installed."""
    stated = licence(package.name)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{package.name}=={package.version}",
        purl=PackageURL("pypi", None, package.name, package.version),
        licenses=[licences.make_from_string(stated)] if stated else [],
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(
                    f"https://pypi.org/project/{package.name}/{package.version}/#sha256={one}"
                ),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one)],
            )
            for one in package.sha256
        ],
    )


def licence(name: str) -> str:
    """Return the licence that an installed package states in one line; empty without one."""
    try:
        stated = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return ""  # needed on other machines only
    text = stated.get("License-Expression") or stated.get("License") or ""
    if text and "\n" not in text:
        return text
    classifiers = stated.get_all("Classifier") or []
    last = [one.split(" :: ")[-1] for one in classifiers if one.startswith("License :: ")]
    return last[0] if last else ""


if __name__ == "__main__":
    sys.exit(main())
