# Sourced by guest.sh. A volume is a block device of this machine, with ext4 on it; the daemon is killed, restarted and replaced under
# it, and nobody sees an error. The console says how often it is killed.

. /daemon.sh
hotset=/programs/hotset

# It fails, and says so.
refused() {
    part=$1
    shift
    if "$@" > /run/refused 2>&1; then failed "not refused: $*"; fi
    grep -q -- "$part" /run/refused || { cat /run/refused; failed "refused otherwise than by $part: $*"; }
}

# The next daemon serves the device of the one before.
served_again() {
    until $hotset volume show ext4 | grep -q "^Local device.*by nbd)$"; do
        kill -0 $daemon || { cat /run/log; failed "the daemon ended"; }
        sleep 0.1
    done
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
step [ "$(readlink /dev/hotset/ext4)" = /dev/nbd0 ]
$hotset volume set ext4 local=on | grep -q "already so" || failed "it is changed twice"
step /programs/mke2fs -q -F -t ext4 /dev/hotset/ext4
step mount -t ext4 /dev/hotset/ext4 /mnt

# While it is mounted nobody takes it away, and this daemon does not stand on it.
refused "mounted at /mnt" $hotset volume set ext4 local=off
refused "mounted at /mnt" $hotset volume delete ext4
refused "local device of volume ext4" $hotset volume create own --backing /dev/hotset/ext4
step truncate -s 40M /mnt/image
refused "local device of volume ext4" $hotset volume create own --backing /mnt/image
refused "local device of volume ext4" $hotset pool create own --type read --io-type custom --block-size 64K --ssd /mnt/image
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
step [ "$(cat /sys/block/nbd1/size)" = 32768 ]
step truncate -s 24M /files/disk
step $hotset volume grow grows
round=0
until [ "$(cat /sys/block/nbd1/size)" = 49152 ]; do
    round=$((round + 1))
    [ $round -lt 100 ] || failed "its device does not grow"
    sleep 0.1
done
# Another name leads to the same device.
step $hotset volume rename grows grown
step [ "$(readlink /dev/hotset/grown)" = /dev/nbd1 ]
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
start_daemon
served_again
step mount -t ext4 /dev/hotset/ext4 /mnt
(cd /mnt && md5sum -c /run/sums > /run/checked) || failed "a file differs in the end"
step umount /mnt
if dmesg | grep -iE "i/o error|ext4-fs error|ext4-fs warning"; then failed "the kernel saw an error"; fi

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
