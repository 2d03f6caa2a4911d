#!/bin/sh
# install.sh [PREFIX]: copies what lies beside it below PREFIX (/usr/local), and the units, with the path of the program in them, to
# /etc/systemd/system. /etc/hotset/hotset.toml is left alone if it is there. DESTDIR puts all of it elsewhere.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-/usr/local}
destination=${DESTDIR:-}

mkdir -p "$destination$prefix" "$destination/etc/systemd/system" "$destination/etc/hotset" "$destination/etc/udev/rules.d"
# A program that runs is not overwritten, but replaced.
cp -r --remove-destination "$here/bin" "$here/share" "$destination$prefix/"
for unit in "$here"/systemd/*; do
    sed "s|/usr/bin/hotset|$prefix/bin/hotset|" "$unit" > "$destination/etc/systemd/system/$(basename "$unit")"
done
cp "$here"/udev/*.rules "$destination/etc/udev/rules.d/"
[ -e "$destination/etc/hotset/hotset.toml" ] || cp "$here/hotset.toml" "$destination/etc/hotset/hotset.toml"
echo "Installed below $prefix. To start it: systemctl daemon-reload; systemctl enable --now hotset.socket hotset.service"
