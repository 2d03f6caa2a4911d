#!/bin/sh
# packages-build.sh FOLDER DEB NEWER OLDER: makes FOLDER/vmlinuz, FOLDER/initrd.gz and FOLDER/root.img: an empty Debian, as mmdebstrap makes
# it, that installs the first package, upgrades to the second, is refused the third, and takes all of it away (packages-inside.sh). As root. The
# Debian is kept.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
sh "$here/build.sh" "$1"
if ! [ -s "$1/debian.tar" ]; then
    mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,udev,kmod,e2fsprogs,init-system-helpers \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$1/debian.new"
    mv "$1/debian.new" "$1/debian.tar"
fi

tree=$1/tree
rm -rf "$tree"
mkdir -p "$tree"
tar --extract --file "$1/debian.tar" --directory "$tree"
cp -r "$1/kernel/lib/modules" "$tree/usr/lib/"
mkdir -p "$tree/packages"
cp "$2" "$tree/packages/hotset.deb"
cp "$3" "$tree/packages/newer.deb"
cp "$4" "$tree/packages/older.deb"
cp "$here/packages-inside.sh" "$tree/packages/inside.sh"
echo "LABEL=root / ext4 defaults 0 0" > "$tree/etc/fstab"
cat > "$tree/etc/systemd/system/packages.service" <<'END'
[Unit]
Description=The test of the packages
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh /packages/inside.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
END
mkdir -p "$tree/etc/systemd/system/graphical.target.wants"
ln -s /etc/systemd/system/packages.service "$tree/etc/systemd/system/graphical.target.wants/packages.service"
for unit in serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
    ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
mke2fs -q -F -t ext4 -L root -d "$tree" "$1/root.img" 1500M
rm -rf "$tree"
