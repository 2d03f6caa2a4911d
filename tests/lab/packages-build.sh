#!/bin/sh
# packages-build.sh FOLDER DEB NEWER OLDER SCRIPT: makes FOLDER/vmlinuz, FOLDER/initrd.gz and FOLDER/root.img: an empty Debian, as mmdebstrap makes
# it, that installs the first package as the script does, upgrades to the second, is refused the third, and takes all of it away (packages-inside.sh). As root. The
# Debian is kept.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian.sh"
sh "$here/build.sh" "$1"
debian "$1" initramfs-tools
mkdir -p "$tree/packages"
cp "$2" "$tree/packages/hotset.deb"
cp "$3" "$tree/packages/newer.deb"
cp "$4" "$tree/packages/older.deb"
cp "$5" "$tree/packages/install.sh"
cp "$here/packages-inside.sh" "$tree/packages/inside.sh"
image /packages/inside.sh 1500M
