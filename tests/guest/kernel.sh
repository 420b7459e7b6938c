#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# kernel.sh FOLDER: makes FOLDER/vmlinuz and FOLDER/initrd, the guest's kernel and first file system, unless they are there
# and made from what stands here now. Kept in FOLDER as well: the Debian package they come from, so that only the first
# call ever needs a network. BRAID_GUEST_KERNEL names a linux-image package to use instead of the archive's.
# Exit status 77: the package cannot be had, and why.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$1

# What a guest may need. A kernel that has one built in, or that knows it by another name, has no such module: fine.
# The crc32 ones are asked for by rxe through the crypto interface, by name, which no dependency tells.
wanted="virtio_pci virtio_console virtio_rng 9p 9pnet_virtio overlay
    crc32_generic crc32c_generic rdma_rxe ib_uverbs ib_umad rdma_ucm
    veth bridge dummy sch_tbf sch_netem sch_prio sch_ingress cls_u32 cls_matchall act_gact"

absent() {
    echo "guest: $*" >&2
    exit 77
}

failed() {
    echo "guest: $*" >&2
    exit 1
}

# Debian's linux-image-amd64 is an empty package that depends on the newest kernel.
package_name() {
    apt-cache depends linux-image-amd64 2> /dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1
}

# apt's own lists may be missing, or older than the archive, which keeps one version only.
download() {
    local name
    name=$(package_name)
    if [[ -n $name ]] && apt-get download -q "$name" > download.log 2>&1; then
        return 0
    fi
    if [[ $(id -u) -eq 0 ]]; then
        apt-get update -q >> download.log 2>&1 || true
        name=$(package_name)
        [[ -n $name ]] && apt-get download -q "$name" > download.log 2>&1 && return 0
    fi
    grep -E '^(E|Err|W):' download.log | tail -n 3 >&2 || true
    ! grep -q 'No space left' download.log || failed "no space for the kernel's package, 70 MB, in $cache"
    absent "cannot download linux-image-amd64; as root, try: apt-get update. Or set BRAID_GUEST_KERNEL=FILE.deb"
}

# Leaves the package in *.deb of the cache.
fetch() {
    if [[ -n ${BRAID_GUEST_KERNEL:-} ]]; then
        [[ -f $BRAID_GUEST_KERNEL ]] || absent "BRAID_GUEST_KERNEL=$BRAID_GUEST_KERNEL: no such file"
        package=$(realpath "$BRAID_GUEST_KERNEL")
        return 0
    fi
    package=$(find "$cache" -maxdepth 1 -name 'linux-image-*.deb' | head -n 1)
    if [[ -n $package ]]; then
        return 0
    fi
    command -v apt-get > /dev/null || absent "no apt-get to download linux-image-amd64 with; set BRAID_GUEST_KERNEL=FILE.deb"
    echo "guest: downloading Debian's kernel" >&2
    mkdir "$scratch/download"
    chmod 755 "$scratch" "$scratch/download"
    (cd "$scratch/download" && download)
    package=$(find "$scratch/download" -name '*.deb')
    mv "$package" "$cache/"
    package=$cache/${package##*/}
}

# Modules are copied in the order of loading, so that the guest needs neither depmod nor modprobe: 00-first.ko, ...
copy_modules() {
    local tree=$1 version=$2 to=$3 module file count=0
    local -A seen=()
    depmod -b "$tree" "$version"
    for module in $wanted; do
        while read -r file; do
            if [[ -n ${seen[$file]:-} ]]; then
                continue
            fi
            seen[$file]=1
            cp "$file" "$to/$(printf '%02d' "$count")-${file##*/}"
            count=$((count + 1))
        done < <(modprobe -d "$tree" -S "$version" --show-depends "$module" 2> /dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p')
    done
    find "$to" -name '*.xz' -exec xz -d {} +
    find "$to" -name '*.zst' -exec zstd -q -d --rm {} +
}

make_files() {
    local version root=$scratch/initrd
    mkdir "$scratch/package" "$root"
    # Not all of its 450 MB: where modules of the kinds above are.
    dpkg-deb --fsys-tarfile "$package" 2> "$scratch/log" | tar -x -C "$scratch/package" --wildcards './boot/vmlinuz-*' \
        './lib/modules/*/modules.*' './lib/modules/*/kernel/'{arch,crypto,fs,lib,net,drivers/{block,char,infiniband,net,virtio}} \
        2>> "$scratch/log" || {
        head -n 2 "$scratch/log" >&2
        failed "cannot unpack $package in $cache"
    }
    version=$(ls "$scratch/package/lib/modules")
    mkdir "$root"/{bin,modules,proc,sys,dev,lower,upper,new}
    copy_modules "$scratch/package" "$version" "$root/modules"
    if ! ls "$root"/modules/*rdma_rxe.ko > /dev/null 2>&1; then
        absent "${package##*/} has no rdma_rxe (cloud kernels have none)"
    fi
    cp /bin/busybox "$root/bin/busybox"
    install -m 755 "$here/init" "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet) > "$scratch/initrd.new"
    mv "$scratch"/package/boot/vmlinuz-* "$cache/vmlinuz"
    mv "$scratch/initrd.new" "$cache/initrd"
}

[[ $(uname -m) == x86_64 ]] || absent "the guest is an x86-64 machine that runs what is built here, and this is $(uname -m)"
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
exec 9> "$cache/lock"
flock 9 # two builds of one tree may ask at once
stamp=$(cat "$here/kernel.sh" "$here/init" - <<< "${BRAID_GUEST_KERNEL:-}" | sha256sum)
if [[ -s $cache/vmlinuz && -s $cache/initrd && $(cat "$cache/stamp" 2> /dev/null) == "$stamp" ]]; then
    exit 0
fi
for tool in dpkg-deb cpio xz depmod modprobe busybox; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool > /dev/null || absent "no $tool here; as root: apt-get install -y dpkg cpio xz-utils kmod busybox-static"
done
PATH=$PATH:/usr/sbin:/sbin
rm -rf "$cache/stamp" "$cache"/new.* # the latter of a call that was killed
scratch=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
fetch
make_files
echo "$stamp" > "$cache/stamp"
