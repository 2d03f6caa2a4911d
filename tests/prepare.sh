#!/bin/sh
# Installs, from the distribution's packages, the programs that the tests drive; does nothing where all are there.
# Debian and Ubuntu names. As root directly, else through sudo where that asks for no password.
set -eu

# program:package
needs="cc:gcc g++:g++ git:git pkg-config:pkg-config fio:fio qemu-img:qemu-utils qemu-io:qemu-utils qemu-nbd:qemu-utils qemu-storage-daemon:qemu-system-common
nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdsh:python3-libnbd nbdfuse:libnbd-bin nbdkit:nbdkit setpriv:util-linux fusermount3:fuse3 mke2fs:e2fsprogs debugfs:e2fsprogs e2fsck:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mkfs.vfat:dosfstools losetup:mount strip:binutils nbd-client:nbd-client
qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio modprobe:kmod udevadm:udev systemctl:systemd gzip:gzip openssl:openssl
sfdisk:fdisk mkswap:util-linux timeout:coreutils chromium:chromium curl:curl promtool:prometheus setpriv:util-linux unshare:util-linux
python3:python3 pip3:python3-pip
dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev lintian:lintian man:man-db groff:groff readelf:binutils objcopy:binutils bash:bash zsh:zsh fish:fish systemd-analyze:systemd deb-systemd-helper:init-system-helpers mmdebstrap:mmdebstrap smbd:samba smbclient:smbclient libvirtd:libvirt-daemon virsh:libvirt-clients"

PATH=$PATH:/usr/sbin:/sbin
missing=""
for need in $needs; do
    command -v "${need%%:*}" >/dev/null 2>&1 || missing="$missing ${need#*:}"
done
missing=$(printf '%s\n' $missing | sort -u)
[ -z "$missing" ] && exit 0
list=$(echo $missing)

stop() {
    echo "prepare: the tests need these packages, and $1: $list" >&2
    echo "prepare: install them (apt-get install $list) and run this again" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 || stop "there is no apt-get here"
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    stop "neither root nor a sudo without password is there to install them"
fi

echo "prepare: installing $list"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { $as_root apt-get -q update && $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends $list; } >"$log" 2>&1 </dev/null; then
    tail -20 "$log" >&2
    stop "apt-get could not install them (its last words are above)"
fi
