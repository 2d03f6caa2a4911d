#!/bin/sh
# boot.sh FOLDER: makes FOLDER/vmlinuz, FOLDER/initrd.gz and FOLDER/root.img: a small Debian that starts with systemd, as mmdebstrap makes it,
# says "boot: done" on its console and switches itself off. As root. What is there already is kept.
set -eu

lab=$(cd "$(dirname "$0")/../../../../tests/lab" && pwd)
[ -s "$1/root.img" ] && [ -s "$1/initrd.gz" ] && exit 0
sh "$lab/build.sh" "$1"
if ! [ -s "$1/debian.tar" ]; then
    mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,systemd-sysv,udev,kmod,e2fsprogs,init-system-helpers \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$1/debian.new"
    mv "$1/debian.new" "$1/debian.tar"
fi

tree=$1/tree
rm -rf "$tree"
mkdir -p "$tree"
tar --extract --file "$1/debian.tar" --directory "$tree"
cp -r "$1/kernel/lib/modules" "$tree/usr/lib/"
echo "LABEL=root / ext4 defaults 0 0" > "$tree/etc/fstab"
cat > "$tree/etc/systemd/system/booted.service" <<'END'
[Unit]
Description=Says that the machine has started
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo boot: done; sync; echo o > /proc/sysrq-trigger; sleep 60'
StandardOutput=tty
TTYPath=/dev/ttyS0
END
mkdir -p "$tree/etc/systemd/system/graphical.target.wants"
ln -s /etc/systemd/system/booted.service "$tree/etc/systemd/system/graphical.target.wants/booted.service"
for unit in serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
    ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
rm -f "$1/root.new"
mke2fs -q -F -t ext4 -L root -d "$tree" "$1/root.new" 768M
mv "$1/root.new" "$1/root.img"
rm -rf "$tree"
