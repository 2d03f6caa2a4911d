# Sourced by guest.sh. A backing device has a file system that fstab names by its UUID, and while dirty data of its volume is on
# the SSDs the machine starts anew. udev must keep the system off it before the daemon runs, and the UUID must lead to the
# volume as soon as that is there.

uuid=6f1d8c52-3b0e-4a57-9d3c-2f6a4be0c7a1

# The rules that the daemon writes outlive a boot, as on a root file system; udev comes before the daemon.
before_the_daemon() {
    mkdir -p /state/rules
    rmdir /etc/udev/rules.d
    ln -s /state/rules /etc/udev/rules.d
    [ "$boot" != 0 ] || step /programs/mke2fs -q -F -t ext4 -U $uuid /dev/disk-ext4
    step /programs/systemd-udevd --daemon
    # It waits for its own events. `udevadm settle` asks udev over its control socket, where udev may hang up on a late answer.
    step /programs/udevadm trigger --settle --action=add --subsystem-match=block
    backing=$(readlink /dev/disk-ext4)
    if [ "$boot" = 0 ]; then
        # Without a rule the system takes it for the file system.
        step [ "$(readlink -f /dev/disk/by-uuid/$uuid)" = "$backing" ]
    else
        /programs/udevadm info --query=property "$backing" > /run/properties
        step grep -x SYSTEMD_READY=0 /run/properties
        step grep -x ID_FS_TYPE=hotset_backing /run/properties
        step grep -x UDISKS_IGNORE=1 /run/properties
    fi
}

. /daemon.sh
if [ "$boot" = 0 ]; then
    step /programs/hotset volume set ext4 local=on
    step mount -t ext4 /dev/hotset/ext4 /mnt
    echo "newest" > /mnt/file
    step sync
    step grep ID_SERIAL /etc/udev/rules.d/63-z-hotset.rules
    echo "guest: dirty $(/programs/hotset volume show ext4 -o json | grep -o '"dirty_bytes":[ 0-9]*' | head -1)"
    poweroff -f
fi
# The daemon made the device again by itself; udev may be a moment behind.
round=0
until [ "$(readlink -f /dev/disk/by-uuid/$uuid)" = /dev/nbd0 ]; do
    round=$((round + 1))
    [ $round -lt 100 ] || failed "the UUID leads to $(readlink -f /dev/disk/by-uuid/$uuid)"
    sleep 0.1
done
step mount -t ext4 /dev/disk/by-uuid/$uuid /mnt
step grep -x newest /mnt/file
echo "guest: done"
poweroff -f
