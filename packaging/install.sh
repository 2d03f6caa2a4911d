#!/bin/sh
# install.sh [PREFIX]: copies what lies beside it below PREFIX (/usr/local), and the units, with the path of the program in them, to
# /etc/systemd/system. /etc/hotset/hotset.toml is left alone if it is there. DESTDIR puts all of it elsewhere.
# install.sh --remove [PREFIX] takes it away again: the configuration, the state directory, and the udev rules that the daemon wrote stay.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
verb=install
if [ "${1:-}" = --remove ]; then
    verb=remove
    shift
fi
prefix=${1:-/usr/local}
destination=${DESTDIR:-}

# What else a system may have, and where it looks for ours.
hooks=$destination/etc/initramfs-tools/hooks
needrestart_conf=$destination/etc/needrestart/conf.d

if [ "$verb" = remove ]; then
    if [ -z "$destination" ] && systemctl --quiet is-active hotset.service hotset.socket; then
        echo "Hotset runs: systemctl disable --now hotset.socket hotset.service first" >&2
        exit 1
    fi
    (cd "$here" && find bin share ! -type d) | while read -r file; do rm -f "$destination$prefix/$file"; done
    for unit in "$here"/systemd/*; do rm -f "$destination/etc/systemd/system/$(basename "$unit")"; done
    for rules in "$here"/udev/*.rules; do rm -f "$destination/etc/udev/rules.d/$(basename "$rules")"; done
    rm -f "$hooks/hotset" "$needrestart_conf/hotset.conf"
    echo "Removed from $prefix. SSDs, backing devices, /etc/hotset, /var/lib/hotset and /etc/udev/rules.d/63-z-hotset.rules are as they were."
    echo "What is left to do: systemctl daemon-reload, and update-initramfs -u where there was a hook."
    exit
fi

mkdir -p "$destination$prefix" "$destination/etc/systemd/system" "$destination/etc/hotset" "$destination/etc/udev/rules.d"
# A program that runs is not overwritten, but replaced.
cp -r --remove-destination "$here/bin" "$here/share" "$destination$prefix/"
for unit in "$here"/systemd/*; do
    sed "s|/usr/bin/hotset|$prefix/bin/hotset|" "$unit" > "$destination/etc/systemd/system/$(basename "$unit")"
done
cp "$here"/udev/*.rules "$destination/etc/udev/rules.d/"
[ ! -d "$hooks" ] || cp "$here/initramfs-hook" "$hooks/hotset"
[ ! -d "$needrestart_conf" ] || cp "$here/needrestart.conf" "$needrestart_conf/hotset.conf"
[ -e "$destination/etc/hotset/hotset.toml" ] || cp "$here/hotset.toml" "$destination/etc/hotset/hotset.toml"
echo "Installed below $prefix. To start it: systemctl daemon-reload; systemctl enable --now hotset.socket hotset.service"
