# Sourced by guest.sh. A volume is a block device of this machine, with ext4 on it; the daemon is killed, restarted and replaced under
# it, and nobody sees an error. The console says how often it is killed. The driver is the best that the kernel has.

. /daemon.sh
hotset=/programs/hotset

case $driver in
    nbd) disk=nbd ;;
    ublk) disk=ublkb ;;
esac
# In sectors, of the device of a volume.
size_of() { cat "/sys/block/$(basename "$(readlink "/dev/hotset/$1")")/size"; }

# It fails, and says so.
refused() {
    part=$1
    shift
    if "$@" > /run/refused 2>&1; then failed "not refused: $*"; fi
    grep -q -- "$part" /run/refused || { cat /run/refused; failed "refused otherwise than by $part: $*"; }
}

# The next daemon serves the device of the one before.
served_again() {
    until is_local ext4; do
        kill -0 $daemon || { cat /run/log; failed "the daemon ended"; }
        sleep 0.1
    done
}

# Metrics know whether a volume is a local device that is served.
metrics_say() {
    wget -q -O - http://127.0.0.1:9000/metrics > /run/metrics
    grep -q "^hotset_volume_local_device_connected{.*volume=\"$1\".*} $2\$" /run/metrics
}

# A new file, whole and safe, and all that are there.
files=0
write_and_check() {
    files=$((files + 1))
    dd if=/dev/urandom of=/mnt/file$files bs=4093 count=90 conv=fsync 2> /dev/null || failed "a file is not written"
    (cd /mnt && md5sum file$files) >> /run/sums
    echo 3 > /proc/sys/vm/drop_caches
    (cd /mnt && md5sum -c /run/sums > /run/checked) || { cat /run/checked; failed "a file differs"; }
}

step $hotset volume set ext4 local=on
step [ "$(readlink /dev/hotset/ext4)" = /dev/${disk}0 ]
step metrics_say ext4 1
step metrics_say pages 0
# udev knows it as what it is: links of what is on it lead to it, and not to its backing device.
known_to_udev() {
    /programs/udevadm test --action=add "/sys/class/block/$1" > /run/udev-test 2>&1
    grep -q "HOTSET_LOCAL=1" /run/udev-test && grep -q "DEVLINKS=.*/dev/disk/$2" /run/udev-test \
        || { cat /run/udev-test; failed "udev does not know $1"; }
}
printf 'o\nn\np\n1\n\n\nw\n' | fdisk /dev/hotset/ext4 > /run/fdisk 2>&1
step /programs/mke2fs -q -F -t ext4 /dev/${disk}0p1
known_to_udev ${disk}0p1 by-uuid
dd if=/dev/zero of=/dev/hotset/ext4 bs=1M count=2 conv=fsync 2> /dev/null
step blockdev --rereadpt /dev/hotset/ext4
step [ ! -e /dev/${disk}0p1 ]
$hotset volume set ext4 local=on | grep -q "already so" || failed "it is changed twice"
step /programs/mke2fs -q -F -t ext4 /dev/hotset/ext4
known_to_udev ${disk}0 by-uuid
step mount -t ext4 /dev/hotset/ext4 /mnt

# While it is mounted nobody takes it away, and this daemon does not stand on it.
refused "mounted at /mnt" $hotset volume set ext4 local=off
refused "mounted at /mnt" $hotset volume delete ext4
refused "local device of volume ext4" $hotset volume create own --backing /dev/hotset/ext4
step truncate -s 40M /mnt/image
refused "local device of volume ext4" $hotset volume create own --backing /mnt/image
refused "local device of volume ext4" $hotset pool create own --type read --io-type custom --block-size 64K --ssd /mnt/image
refused "local device of volume ext4" $hotset pool create own --type read --io-type custom --block-size 64K --ssd /dev/hotset/ext4
step cp -r /state/hotset /mnt/state
refused "local device of volume ext4" $hotset serve --state /mnt/state --api unix:/run/other --nbd unix:/run/other.nbd
rm -r /mnt/state /mnt/image
echo "guest: refusals are in order"

echo "guest: how many kills?"
read -r kills < /dev/console
# Meanwhile fio writes and verifies, until it is enough.
verify() {
    until [ -e /run/enough ]; do
        /programs/fio --name=verify --directory=/mnt --rw=randwrite --bs=4k --size=2M --ioengine=libaio --iodepth=8 --direct=1 \
            --fsync=64 --verify=crc32c --verify_fatal=1 > /run/fio 2>&1 || return 1
    done
}
verify &
fio=$!
kill=0
while [ $kill -lt "$kills" ]; do
    kill=$((kill + 1))
    write_and_check
    kill -KILL $daemon
    wait $daemon
    start_daemon
    served_again
    write_and_check
    echo "guest: killed $kill"
done
kill -TERM $daemon
wait $daemon
# It waits for the next one, which is another program.
step cp /programs/hotset /run/hotset-next
step [ -e /dev/hotset/ext4 ]
start_daemon /run/hotset-next
served_again
write_and_check
echo "guest: replaced"
touch /run/enough
wait $fio || { cat /run/fio; failed "fio"; }
echo "guest: fio is content"

# A backing device that grows, and its local device with it.
step $hotset volume delete xfs
mkdir /files
step /programs/mke2fs -q -F -t ext4 /dev/disk-xfs
step mount -t ext4 /dev/disk-xfs /files
step truncate -s 16M /files/disk
step $hotset volume create grows --backing /files/disk
step $hotset volume set grows local=on
step [ "$(size_of grows)" = 32768 ]
# A kernel whose ublk cannot change the size of a device that is in use says so, and it grows when nobody uses it.
if [ $driver = ublk ]; then exec 9> /dev/hotset/grows; fi
step truncate -s 24M /files/disk
step $hotset volume grow grows
if [ $driver = ublk ]; then
    round=0
    until $hotset status | grep -q "cannot change the size of a device that is in use"; do
        round=$((round + 1))
        [ $round -lt 100 ] || failed "nobody says why its device does not grow"
        sleep 0.1
    done
    step [ "$(size_of grows)" = 32768 ]
    exec 9>&-
fi
round=0
until [ "$(size_of grows)" = 49152 ]; do
    round=$((round + 1))
    [ $round -lt 100 ] || failed "its device does not grow"
    sleep 0.1
done
# Another name leads to the same device.
device=$(readlink /dev/hotset/grows)
step $hotset volume rename grows grown
step [ "$(readlink /dev/hotset/grown)" = "$device" ]
step [ ! -e /dev/hotset/grows ]
# Whoever writes to it without mounting it uses it, too.
exec 9> /dev/hotset/grown
refused "(process 1)" $hotset volume set grown local=off
step $hotset volume set grown local=off --force
exec 9>&-
step [ ! -e /dev/hotset/grown ]
step $hotset volume set grown local=on
step $hotset volume delete grown
step [ ! -e /dev/hotset/grown ]
echo "guest: growth is in order"

step umount /mnt
step /programs/e2fsck -f -n /dev/hotset/ext4
# Nobody uses it: it goes with the daemon, and comes back with the next one.
kill -TERM $daemon
wait $daemon
step [ ! -e /dev/hotset/ext4 ]
step [ ! -e /sys/block/nbd0/pid ]
step [ ! -e /sys/block/ublkb0 ]
start_daemon
served_again
step mount -t ext4 /dev/hotset/ext4 /mnt
(cd /mnt && md5sum -c /run/sums > /run/checked) || failed "a file differs in the end"
step umount /mnt
if dmesg | grep -iE "i/o error|ext4-fs error|ext4-fs warning|warning:.*ublk"; then failed "the kernel saw an error"; fi

# Random reads of 4 KiB of what is in the memory cache, 32 at once: how many a second.
random_reads() {
    for pass in 1 2 3; do dd if=/dev/hotset/ext4 of=/dev/null bs=4k count=1024 iflag=direct 2> /dev/null; done
    /programs/fio --name=reads --filename=/dev/hotset/ext4 --readonly --rw=randread --bs=4k --size=4M --iodepth=32 --ioengine=libaio \
        --direct=1 --norandommap --time_based --ramp_time=1 --runtime=5 --output-format=terse --terse-version=3 | cut -d ';' -f 8
}
if [ $driver = ublk ]; then
    ublk=$(random_reads)
    # What a driver has made stays with it; without the better driver the other one takes over.
    step $hotset volume set ext4 local=off
    # Whoever had it open closes it in a moment.
    round=0
    until rmmod ublk_drv; do
        round=$((round + 1))
        [ $round -lt 100 ] || failed "its driver cannot be removed"
        sleep 0.1
    done
    step $hotset volume set ext4 local=on
    driver=nbd
    served_again
    echo "guest: random reads: ublk $ublk nbd $(random_reads)"
fi

# Without the driver the volume is served as before, and says what is missing.
kill -TERM $daemon
wait $daemon
step rmmod nbd
/programs/hotset serve --state /state/hotset --api $HOTSET_API --nbd tcp:0.0.0.0:10809 --missing-wait 1 >> /run/log 2>&1 &
daemon=$!
until $hotset status 2> /dev/null | grep -q "this kernel has no driver for local devices"; do
    kill -0 $daemon || { cat /run/log; failed "the daemon ended"; }
    sleep 0.2
done
refused "modprobe nbd" $hotset volume set pages local=on
$hotset volume show ext4 | grep -q "nbd://" || failed "NBD does not go on"
step $hotset volume set ext4 local=off
step $hotset status
echo "guest: done"
poweroff -f
