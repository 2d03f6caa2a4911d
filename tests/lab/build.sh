#!/bin/sh
# build.sh FOLDER: makes FOLDER/vmlinuz and FOLDER/initrd.gz, the virtual machine in which the kernel's own NBD client is
# tried. The kernel is Debian's, unmodified, unpacked from its package; the programs are this machine's. What is there
# already is kept, but for the small parts.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
PATH=$PATH:/usr/sbin:/sbin

# Debian's kernel for virtual machines: a third of the size of the other, with all that is needed here.
fetch_kernel() {
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -1)
    [ -n "$package" ] || return 1
    rm -rf kernel download
    mkdir download
    (cd download && apt-get -q -o APT::Sandbox::User=root download "$package" >/dev/null) || return 1
    dpkg -x download/*.deb kernel
    rm -rf download
    cp kernel/boot/vmlinuz-* vmlinuz.new
    mv vmlinuz.new vmlinuz
}

# Lists of packages that are missing or too old are the usual reason for a failure.
update_lists() {
    if [ "$(id -u)" = 0 ]; then apt-get -q update >/dev/null; else sudo -n apt-get -q update >/dev/null; fi
}

if ! [ -e vmlinuz ] && ! fetch_kernel && ! { update_lists && fetch_kernel; }; then
    echo "build.sh: no linux-image-cloud-amd64 from apt: a Debian with its package lists is needed (apt-get update)" >&2
    exit 1
fi
release=$(ls kernel/lib/modules)
depmod -b kernel "$release"

rm -rf root
mkdir -p root/bin root/dev root/proc root/sys root/mnt root/modules root/programs
cp "$(command -v busybox)" root/bin/busybox
cp "$here/guest.sh" root/init
chmod +x root/init

# What each module needs comes before it.
for module in virtio_pci virtio_net crc32c_generic ext4 nbd; do
    modprobe -d kernel -S "$release" --show-depends "$module" 2>/dev/null || true
done | awk '/^insmod/ && !seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" root/modules/
    echo "/modules/$(basename "$file")" >> root/modules/order
done

for program in nbd-client mke2fs e2fsck; do
    path=$(command -v "$program")
    cp "$path" root/programs/
    ldd "$path" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "root$(dirname "$library")"
        cp -L "$library" "root$library"
    done
done

(cd root && find . | cpio --quiet -o -H newc | gzip -1) > initrd.gz
