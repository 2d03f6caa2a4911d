# Sourced by guest.sh. What udev.sh left when it was switched off, dirty data and a file system named by its UUID, is found by
# a machine that starts as Debian does: systemd, udev, the units as they are shipped, and a line in fstab. The driver is the best that the
# kernel has.

uuid=6f1d8c52-3b0e-4a57-9d3c-2f6a4be0c7a1

# By the serial numbers; udev keeps what it did not make.
for device in /sys/block/vd*; do
    ln -s "/dev/${device##*/}" "/dev/disk-$(cat "$device/serial")"
done
# The root file system forgets everything: what a machine has on its own is on a disk.
mkdir -p /state /var/lib/hotset /etc/udev /srv /run
step mount -t ext4 /dev/disk-state /state
step mount -o bind /state/hotset /var/lib/hotset
ln -s /state/rules /etc/udev/rules.d
step [ -s /etc/udev/rules.d/63-z-hotset.rules ]

# The machine is emulated, perhaps beside others: what takes seconds elsewhere takes minutes here.
mkdir -p /etc/systemd
printf '[Manager]\nDefaultDeviceTimeoutSec=900\nDefaultTimeoutStartSec=900\n' > /etc/systemd/system.conf

echo "UUID=$uuid /srv ext4 x-systemd.requires=hotset.service 0 0" > /etc/fstab

# Runs as soon as the daemon says that it is ready.
cat > /ready.sh << 'END'
#!/bin/sh
exec > /dev/console 2>&1
PATH=/bin
[ -b /dev/hotset/ext4 ] && echo "guest: ready with its device" && exit
echo "guest: FAILED: it is ready without its device"
poweroff -f
END
chmod +x /ready.sh
printf '[Unit]\nDefaultDependencies=no\nRequires=hotset.service\nAfter=hotset.service\n[Service]\nType=oneshot\nExecStart=/ready.sh\n' \
    > /etc/systemd/system/ready.service
ln -s ../ready.service /etc/systemd/system/sysinit.target.wants/

# Runs when all local file systems are there; or, with another word, when the machine could not go on.
cat > /check.sh << 'END'
#!/bin/sh
exec > /dev/console 2>&1
PATH=/bin:/programs
disk=/dev/nbd0
[ ! -e /dev/ublk-control ] || disk=/dev/ublkb0

value() { systemctl show --property="$1" --value "$2"; }

# Another daemon takes the place of the one that runs, and the file system stays mounted although nobody uses it.
replaced() {
    before=$(value MainPID hotset.service)
    since=$(value ActiveEnterTimestampMonotonic srv.mount)
    eval "$1"
    tries=0
    until [ "$(value ActiveState hotset.service)" = active ] && [ "$(value MainPID hotset.service)" != "$before" ]; do
        tries=$((tries + 1))
        [ $tries -lt 6000 ] || { echo "guest: FAILED: $1: no other daemon"; return 1; }
        sleep 0.1
    done
    # What systemd had to do besides is done.
    until [ -z "$(systemctl list-jobs --no-legend srv.mount)" ]; do sleep 0.1; done
    [ "$(value ActiveEnterTimestampMonotonic srv.mount)" = "$since" ] || { echo "guest: FAILED: $1: unmounted"; return 1; }
    echo 3 > /proc/sys/vm/drop_caches
    grep -qx newest /srv/file || { echo "guest: FAILED: $1: the file cannot be read"; return 1; }
    echo "guest: another daemon, the same mount: $1"
}
echo "guest: $(grep ' /srv ' /proc/mounts || echo 'nothing is mounted on /srv')"
if [ "$1" != local-fs ]; then
    systemctl --no-pager --failed
    systemctl --no-pager status hotset.service srv.mount
    dmesg | tail -40
    echo "guest: FAILED: $1"
elif ! grep -q "^$disk /srv ext4" /proc/mounts; then
    echo "guest: FAILED: the file system is not on the volume"
elif ! grep -qx newest /srv/file; then
    echo "guest: FAILED: the file system is not the newest"
elif ! replaced 'kill -9 $before' || ! replaced 'systemctl start hotset-replace.service'; then
    systemctl --no-pager status hotset.service hotset-replace.service srv.mount
    dmesg | tail -40
else
    echo "guest: done"
fi
poweroff -f
END
chmod +x /check.sh
exec /lib/systemd/systemd --log-target=console --log-level=info
