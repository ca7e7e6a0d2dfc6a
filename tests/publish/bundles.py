"""What the tests do with a bundle: run its script, change its facts, and make all else fit them."""

import json
import shutil
import subprocess

from privbench.display import json_visible
from privbench.postgres import binaries
from privbench.postgres.ddl import Ddl
from privbench.publish.checksums import digest, sums_text, walk
from privbench.publish.records import Bundle, Certificate, PublishedStatistics, parse
from privbench.publish.scripts import rendered
from privbench.workload import read


def start(folder, *arguments):
    """Run the bundle's script with nothing but psql, without a network where that can be had."""
    psql = binaries.find("psql", binaries.package_directories() + binaries.machine_directories())
    path = f"{psql[0].path.parent}:/usr/bin:/bin"
    command = ["sh", str(folder / "start.sh"), *arguments]
    alone = ["unshare", "-n"]
    if shutil.which("unshare") and not subprocess.run([*alone, "true"], check=False).returncode:
        command = [*alone, *command]
    return subprocess.run(
        command, env={"PATH": path, "LANG": "C"}, capture_output=True, text=True, cwd="/"
    )


def change_facts(path, change):
    """Change a file of facts, in the one form that it may have."""
    data = json.loads(path.read_text())
    change(data)
    text = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False)
    path.write_text(json_visible(text) + "\n")


def render(folder):
    """Make scripts and metadata anew of the facts and rows there are."""
    statistics = folder / "statistics.json"
    texts = rendered(
        parse(Bundle, (folder / "bundle.json").read_bytes()),
        parse(Certificate, (folder / "certificate.json").read_bytes()),
        Ddl(*((folder / f"schema/{part}.sql").read_text() for part in ("before", "after"))),
        read(folder / "workload/workload.json"),
        parse(PublishedStatistics, statistics.read_bytes()) if statistics.exists() else None,
        {path: digest(folder, path) for path in walk(folder) if path.startswith("data/")},
    )
    for path, text in texts.items():
        (folder / path).write_bytes(text)


def seal(folder):
    """Checksums that fit what is there."""
    files = [path for path in walk(folder) if path != "SHA256SUMS"]
    sums = sums_text({path: digest(folder, path) for path in files})
    (folder / "SHA256SUMS").write_bytes(sums)
