# shellcheck shell=bash
# Shared by scripts/demo and scripts/test: find a Python, make .venv, install this checkout into it.
# All that is needed beforehand is Python 3.11 or later; everything else comes from pip.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"

say() { printf '==> %s\n' "$*" >&2; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 2
}

# Whether a command is a Python that privbench can run on. A version manager's shim may be on the
# PATH and still refuse to run, so it is run rather than looked up.
fits() {
    [ -n "$1" ] && "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
        >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        if fits "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or later with the venv module was found." \
        "Install one (Debian and Ubuntu: apt install python3 python3-venv), or name it: PYTHON=/path/to/python3.11 $0"
}

make_venv() {
    if fits "$venv/bin/python"; then
        return
    fi
    local python
    python="$(find_python)" || exit 2
    say "making .venv with $("$python" --version 2>&1)"
    "$python" -m venv --clear "$venv" || die "could not make $venv"
}

# One line per ten packages; on a terminal one line that is overwritten.
show_progress() {
    local tty=0
    if [ -t 2 ]; then tty=1; fi
    awk -v tty="$tty" '
        /^Collecting / { count++; name = $2; sub(/[^A-Za-z0-9_.-].*/, "", name)
            if (tty) printf "\r\033[K    %d packages found, %s", count, name
            else if (count % 10 == 0) printf "    %d packages found, %s\n", count, name }
        /^Installing collected packages/ {
            if (tty) printf "\r\033[K    installing %d packages ...", count
            else printf "    installing %d packages ...\n", count }
        { fflush() }
        END { if (tty) printf "\r\033[K" }' >&2
}

# What the installation was made from: it is repeated when any of this changes.
fingerprint() {
    "$venv/bin/python" - "$root" "$1" <<'PYTHON'
import hashlib, pathlib, sys

root, extra = sys.argv[1:]
text = [pathlib.Path(root, name).read_bytes() for name in ("pyproject.toml", "lab/pyproject.toml")]
print(hashlib.sha256(repr((root, extra, sys.version, text)).encode()).hexdigest())
PYTHON
}

# ensure_env EXTRA: .venv holds this checkout, the lab too (editable), and the dependencies of EXTRA.
ensure_env() {
    local extra="$1" stamp log want
    make_venv
    stamp="$venv/.privbench-$extra"
    want="$(fingerprint "$extra")"
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want" ]; then
        return
    fi
    log="$venv/install-$extra.log"
    say "installing privbench[$extra] and privbench-lab into .venv (once; a few minutes on a slow line)"
    if ! "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
        --editable "${root}[$extra]" --editable "$root/lab" 2>&1 | tee "$log" | show_progress; then
        tail -n 20 "$log" >&2
        die "pip could not install the dependencies; the whole output is in $log"
    fi
    printf '%s\n' "$want" >"$stamp"
}
