"""A bundle as an OCI image layout: one layer, whose files are those of the bundle.

Registries take it (``skopeo copy oci:image docker://…``), Dockerfiles (``COPY --from``) and volumes
of Kubernetes; it has no program of its own. Source: OCI image specification 1.1, image-layout.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from privbench.publish.checksums import walk
from privbench.publish.facts import Bundle

_TYPES = "application/vnd.oci.image"
_KEY = "org.opencontainers.image"


class _Hashed:
    """A file that hashes what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.sum = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sum.update(data)
        return self._file.write(data)


def write_layout(folder: Path, image: Path, bundle: Bundle) -> None:
    """Write the layout of a bundle into an empty folder; the same bundle gives the same bytes.

    Raises:
        ModelError: The bundle cannot be read.
    """
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
    for place in (image, image / "blobs", blobs):
        place.chmod(0o755)


def _layer(folder: Path, blobs: Path) -> dict[str, Any]:
    """All files in one archive that says nothing of this machine: no owner, no time."""
    handle, name = tempfile.mkstemp(dir=blobs)
    with os.fdopen(handle, "wb") as file:
        hashed = _Hashed(file)
        with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
            for path in walk(folder):
                item = tarfile.TarInfo(path)
                item.size, item.mode = (folder / path).stat().st_size, 0o644
                with (folder / path).open("rb") as data:
                    archive.addfile(item, data)
    digest = hashed.sum.hexdigest()
    Path(name).rename(blobs / digest)
    (blobs / digest).chmod(0o644)
    return _described(f"{_TYPES}.layer.v1.tar", digest, (blobs / digest).stat().st_size)


def _blob(blobs: Path, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    data = json.dumps(content, sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return _described(kind, digest, len(data))


def _described(kind: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}
