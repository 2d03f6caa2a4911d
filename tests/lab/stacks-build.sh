#!/bin/sh
# stacks-build.sh FOLDER HOTSET PAGES: makes FOLDER/vmlinuz, FOLDER/initrd.gz and FOLDER/root.img: a Debian with Hotset and what stands on
# volumes, that does every script in the folder PAGES (stacks-inside.sh). As root. The Debian is kept.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian.sh"
sh "$here/build.sh" "$1"
debian "$1" lvm2 mdadm xfsprogs nfs-kernel-server nfs-common
cp "$2" "$tree/usr/bin/hotset"
strip "$tree/usr/bin/hotset"
cp "$here"/../../contrib/hotset.service "$here"/../../contrib/hotset-replace.service "$here"/../../contrib/hotset.socket "$tree/etc/systemd/system/"
cp "$here"/../../contrib/*.rules "$tree/etc/udev/rules.d/"
mkdir -p "$tree/etc/systemd/system/sysinit.target.wants" "$tree/etc/systemd/system/sockets.target.wants"
ln -s ../hotset.service "$tree/etc/systemd/system/sysinit.target.wants/hotset.service"
ln -s ../hotset.socket "$tree/etc/systemd/system/sockets.target.wants/hotset.socket"
mkdir -p "$tree/stacks"
cp "$3"/*.sh "$tree/stacks/"
cp "$here/stacks-inside.sh" "$tree/usr/local/sbin/stacks-inside"
image /usr/local/sbin/stacks-inside 2000M
