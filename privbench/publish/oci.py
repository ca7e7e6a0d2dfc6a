"""A bundle as an OCI image layout: one layer, whose files are those of the bundle.

It can be pushed to registries (``skopeo copy oci:image docker://…``) and used in Dockerfiles
(``COPY --from``) and as a volume of Kubernetes; it contains no program. Source: OCI image
specification 1.1, image-layout.md.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privbench.publish.checksums import walk
from privbench.publish.facts import Bundle

_TYPES = "application/vnd.oci.image"
_KEY = "org.opencontainers.image"


def write_layout(folder: Path, image: Path, bundle: Bundle) -> None:
    """Write the layout of a bundle into an empty folder; the same bundle gives the same bytes."""
    blobs = image / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layer = _layer(folder, blobs)
    said = {"title": bundle.title, "vendor": bundle.publisher, "licenses": bundle.licence}
    root = {"type": "layers", "diff_ids": [layer["digest"]]}
    config = {"architecture": "unknown", "os": "unknown", "config": {}, "rootfs": root}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPES}.manifest.v1+json",
        "config": _blob(blobs, f"{_TYPES}.config.v1+json", config),
        "layers": [layer],
        "annotations": {f"{_KEY}.{name}": value for name, value in said.items() if value},
    }
    found = _blob(blobs, f"{_TYPES}.manifest.v1+json", manifest)
    index = {"schemaVersion": 2, "mediaType": f"{_TYPES}.index.v1+json", "manifests": [found]}
    (image / "index.json").write_text(json.dumps(index))
    (image / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def _layer(folder: Path, blobs: Path) -> dict[str, Any]:
    """Write all files into one archive that reveals nothing of this machine: no owner, no time."""
    whole = blobs / "layer"
    with tarfile.open(whole, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in walk(folder):
            item = tarfile.TarInfo(path)
            item.size, item.mode = (folder / path).stat().st_size, 0o644
            with (folder / path).open("rb") as data:
                archive.addfile(item, data)
    with whole.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    size = whole.stat().st_size
    whole.rename(blobs / digest)
    return _described(f"{_TYPES}.layer.v1.tar", digest, size)


def _blob(blobs: Path, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    data = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return _described(kind, digest, len(data))


def _described(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}
