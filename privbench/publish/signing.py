"""Sign and check the checksums with OpenSSH, whose program and keys most people have."""

import base64
import re
import subprocess
import tempfile
from pathlib import Path

from privbench.errors import ModelError, UsageError

_NAMESPACE = "privbench-bundle"
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"


def sign(data: bytes, key: Path) -> bytes:
    """Sign bytes with a private key of OpenSSH, and return the signature.

    A UsageError is raised if ssh-keygen is missing, or does not take the key.
    """
    process = _keygen(["-Y", "sign", "-q", "-f", str(key), "-n", _NAMESPACE], data)
    if process.returncode != 0 or not process.stdout:
        raise UsageError(f"ssh-keygen does not sign with {key}: {_process_output(process)}")
    return process.stdout


def signer(data: bytes, signature: bytes, public: Path | None) -> str:
    """Return who signed some bytes: the fingerprint of the key.

    If ``public``, a file with a public key (``ssh-ed25519 AAAA…``), is given, that key has to be
    the signer. A ModelError is raised if it is not, or if these bytes were not signed; a UsageError
    if the signature cannot be checked here.
    """
    if _armoured(b"".join(signature.splitlines()[1:-1])) != signature:
        raise ModelError("it is no signature of OpenSSH.")
    with tempfile.TemporaryDirectory(prefix="pb-sig-") as scratch:
        path = Path(scratch) / "signature"
        path.write_bytes(signature)
        common = ["-n", _NAMESPACE, "-s", str(path)]
        if public is None:
            process = _keygen(["-Y", "check-novalidate", *common], data)
        else:
            allowed = Path(scratch) / "allowed"
            allowed.write_text(f"publisher {_public(public)}\n", encoding="ascii")
            process = _keygen(
                ["-Y", "verify", "-f", str(allowed), "-I", "publisher", *common], data
            )
    print_ = re.search(rb"key (SHA256:[A-Za-z0-9+/]{43})(?!\S)", process.stdout)
    if process.returncode != 0 or print_ is None:
        whose = "that key's signature of these checksums" if public else "a signature of them"
        raise ModelError(f"it is not {whose}: {_process_output(process)}")
    return print_[1].decode()


def _armoured(body: bytes) -> bytes:
    """The single valid form of a signature file, so that any changed bit is noticed."""
    try:
        text = base64.b64encode(base64.b64decode(body, validate=True))
    except ValueError:
        return b""
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return b"\n".join([_BEGIN, *lines, _END, b""])


def _public(path: Path) -> str:
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, ValueError) as error:
        raise UsageError(f"the public key {path} cannot be read.") from error
    if len(words) < 2 or not re.fullmatch(r"[\w@.-]+", words[0]):
        raise UsageError(f"{path} is no public key of OpenSSH.")
    return " ".join(words[:2])


def _keygen(arguments: list[str], data: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603
            ["ssh-keygen", *arguments],  # noqa: S607
            input=data, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            "ssh-keygen is needed for signatures, and does not run.",
            remedy="Install the client programs of OpenSSH.",
        ) from error


def _process_output(process: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join((process.stderr or process.stdout).decode(errors="replace").split())[:300]
