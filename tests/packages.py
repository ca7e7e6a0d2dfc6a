"""Packages with entry points, as an installer leaves them in a folder."""

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path,
    name: str,
    points: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str] | None = None,
) -> None:
    """Modules and metadata of a package; ``points`` are names and their objects by group."""
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(text)
    about = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in objects.items())])
        for group, objects in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
