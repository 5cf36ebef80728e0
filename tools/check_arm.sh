#!/usr/bin/env bash
# The bits and the core tests on emulated 64-bit ARM: a Debian root for arm64, wheels for aarch64, qemu-user.
# Needs root, and `apt-get install qemu-user-static binfmt-support debootstrap unzip`. Arguments are handed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
root=${ARM_ROOT:-/var/tmp/wolf-arm64}
bin=${VENV:-.venv}/bin
tests=(tests/unit/beliefs tests/unit/native tests/unit/online tests/unit/integrations/test_export_c.py)
platforms=(manylinux_2_{28,27,26,24,17}_aarch64 manylinux2014_aarch64)

mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
update-binfmts --enable qemu-aarch64
if [ ! -e "$root/site" ]; then
    debootstrap --variant=minbase --arch=arm64 --include=python3.11,libstdc++6 bookworm "$root"
    mkdir -p "$root/wheels" "$root/source"
    "$bin/pip" freeze --exclude-editable | grep -iE "^(jax|jaxlib|numpy|scipy|click|llvmlite|narwhals|pyarrow|threadpoolctl|tqdm|\
ml_dtypes|opt_einsum|pandas|polars|polars-runtime-32|pytest|pytest-xdist|execnet|hypothesis|sortedcontainers|pluggy|\
iniconfig|packaging|pygments|python-dateutil|six)==" > "$root/wheels/requirements.txt"
    "$bin/pip" download --quiet --no-deps --only-binary=:all: --python-version 3.11 "${platforms[@]/#/--platform=}" \
        --dest "$root/wheels" --requirement "$root/wheels/requirements.txt"
    mkdir "$root/site.part"
    for wheel in "$root"/wheels/*.whl; do unzip -q -o "$wheel" -d "$root/site.part"; done
    mv "$root/site.part" "$root/site"
fi
"$bin/python" tools/platform_bits.py --write "$root/bits.npz"
rm -rf "$root/source" && mkdir "$root/source"
git ls-files -z src fleet/src tests tools conftest.py pyproject.toml README.md | xargs -0 cp --parents --target-directory="$root/source"
mountpoint -q "$root/proc" || { mount -t proc proc "$root/proc" && trap 'umount "$root/proc"' EXIT; }
on_arm() {
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 PYTHONPATH=/site:/source/src:/source/fleet/src \
        sh -c 'cd /source && exec python3.11 "$@"' sh "$@"
}
on_arm tools/platform_bits.py --compare /bits.npz
on_arm -m pytest -p no:cacheprovider -m "not slow and not thorough and not spark and not bits" "${@:-${tests[@]}}"
