#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/release/sbom BUILD_DIR prints a whole SPDX 2.3 document that names what ddprun is linked from.
#   sbom_test.sh BUILD_DIR
set -euo pipefail
for tool in dpkg-query readelf ninja; do
  command -v "$tool" >/dev/null || { echo "skipped: there is no $tool" && exit 77; }
done
[ -e "$1/build.ninja" ] || { echo "skipped: not a build with Ninja" && exit 77; }

SOURCE_DATE_EPOCH=0 "$(dirname "${BASH_SOURCE[0]}")/../scripts/release/sbom" "$1" | python3 -c '
import json, re, sys

document = json.load(sys.stdin)
assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0", document
assert document["SPDXID"] == "SPDXRef-DOCUMENT" and document["name"], document
assert re.fullmatch(r"https://[^\s#]+", document["documentNamespace"]), document["documentNamespace"]
assert document["creationInfo"]["created"] == "1970-01-01T00:00:00Z", document["creationInfo"]
assert all(re.match(r"(Tool|Person|Organization): .", who) for who in document["creationInfo"]["creators"])

packages = {package["SPDXID"]: package for package in document["packages"]}
assert len(packages) == len(document["packages"]), "an id is there twice"
for spdx_id, package in packages.items():
    assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", spdx_id), spdx_id
    for field in ("name", "versionInfo", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"):
        assert package[field], (spdx_id, field)
    assert package["filesAnalyzed"] is False, spdx_id
    for reference in package.get("externalRefs", []):
        assert re.fullmatch(r"pkg:deb/debian/[^@]+@[^?]+\?arch=\w+", reference["referenceLocator"]), reference

kinds = {"DYNAMIC_LINK", "STATIC_LINK", "BUILD_DEPENDENCY_OF"}
for relationship in document["relationships"]:
    assert relationship["relationshipType"] in kinds, relationship
    assert {relationship["spdxElementId"], relationship["relatedSpdxElement"]} <= set(packages), relationship
related = {end for r in document["relationships"] for end in (r["spdxElementId"], r["relatedSpdxElement"])}
assert related == set(packages), set(packages) - related
assert set(document["documentDescribes"]) <= set(packages) and document["documentDescribes"]

linked = {packages[r["relatedSpdxElement"]]["name"] for r in document["relationships"]
          if r["spdxElementId"] == "SPDXRef-ddprun" and r["relationshipType"] == "DYNAMIC_LINK"}
names = {package["name"] for package in packages.values()}
assert any(name.startswith("libc6") for name in linked), linked
for part in ("libboost", "nlohmann-json", "libstdc++"):
    assert any(name.startswith(part) for name in names), (part, names)
'
