#!/bin/busybox sh
# The whole life of the virtual machine: connect to the daemon on the host by the kernel's NBD client, use the device as
# a disk with ext4 on it, check, say so on the console, and switch off. A line "FAILED" or a missing line "guest: done"
# is a failure. With phase=write it writes until the daemon dies under it; with phase=check it looks at what is left. With
# phase=reconnect the daemon is replaced under it. With phase=power and others the daemon runs in here: see power.sh and the others.
/bin/busybox --install -s /bin
export PATH=/bin

failed() {
    echo "guest: FAILED: $1"
    dmesg | tail -20
    poweroff -f
}

step() {
    echo "guest: $*"
    "$@" || failed "$*"
}

# One more file on /mnt, or another one in its place, which is read again from the disk.
round=0
write_and_read_a_file() {
    round=$((round + 1))
    file=$((round % 16))
    dd if=/dev/urandom of=/mnt/$file bs=4093 count=$((round % 90 + 1)) conv=fsync 2>/dev/null || failed "a file is not written"
    (cd /mnt && md5sum $file) > /run-$file
    echo 3 > /proc/sys/vm/drop_caches
    (cd /mnt && md5sum -c /run-$file > /checked) || failed "a file differs"
    echo "guest: round $round"
}

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do insmod "$module"; done < /modules/order

for word in $(cat /proc/cmdline); do
    case $word in
        nbd_port=*) port=${word#nbd_port=} ;;
        nbd_export=*) export_name=${word#nbd_export=} ;;
        phase=*) phase=${word#phase=} ;;
        boot=*) boot=${word#boot=} ;;
        last=*) last=${word#last=} ;;
    esac
done
[ "$phase" = disk ] && . /disk.sh
ip link set lo up
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || failed "no network"

case $phase in
    power | database | udev | systemd | packages | local | local_memory) . /$phase.sh ;;
    local_power) . /power.sh ;;
esac

# Files come and go while the daemon does, until the console says that it is enough; each is read again in the end.
go_on_while_the_daemon_is_replaced() {
    step /programs/mke2fs -q -F -t ext4 /dev/nbd0
    step mount -t ext4 /dev/nbd0 /mnt
    (read -r word < /dev/console; touch /enough) &
    until [ -e /enough ]; do
        write_and_read_a_file
    done
    step umount /mnt
    step /programs/e2fsck -f -n /dev/nbd0
    step mount -t ext4 -o ro /dev/nbd0 /mnt
    (cd /mnt && cat /run-* | md5sum -c > /checked) || failed "a file differs in the end"
    if dmesg | grep -iE "i/o error|ext4-fs error"; then failed "the kernel saw an error"; fi
    echo "guest: done"
    poweroff -f
}

# The kernel's client stops when a connection ends; QEMU between it and the daemon
# connects again.
if [ "$phase" = reconnect ]; then
    mkdir -p /var/lock
    step /programs/qemu-nbd --fork --connect=/dev/nbd0 --image-opts \
        "driver=nbd,server.type=inet,server.host=10.0.2.2,server.port=$port,export=$export_name,reconnect-delay=60"
    # The program says that it is ready before the kernel has been told the size.
    until [ "$(cat /sys/block/nbd0/size)" != 0 ]; do sleep 0.1; done
    go_on_while_the_daemon_is_replaced
fi

# The host's loopback is 10.0.2.2 here. Four connections: the kernel spreads its requests and flushes over them.
step /programs/nbd-client -C 4 -b 4096 -N "$export_name" 10.0.2.2 "$port" /dev/nbd0
step [ "$(cat /sys/block/nbd0/queue/logical_block_size)" = 4096 ]
step [ "$(cat /sys/block/nbd0/queue/write_cache)" = "write back" ]

# Files of which sync said that they are safe are told on the console, then more is written without end.
write_until_the_end() {
    step /programs/mke2fs -q -F -t ext4 /dev/nbd0
    step mount -t ext4 /dev/nbd0 /mnt
    round=0
    while true; do
        round=$((round + 1))
        mkdir -p /mnt/$((round % 8)) || return
        dd if=/dev/urandom of=/mnt/$((round % 8))/$round bs=3001 count=$((round % 90 + 1)) 2>/dev/null || return
        # More than fits into this machine's memory: the page cache is written back under pressure all the time.
        dd if=/dev/zero of=/mnt/big bs=1M seek=$((round % 40)) count=4 conv=notrunc 2>/dev/null || return
        if [ $((round % 5)) = 0 ]; then
            sync /mnt/$((round % 8))/$round || return
            echo "guest: safe $(md5sum /mnt/$((round % 8))/$round)"
        fi
        [ $round = 60 ] && echo "guest: at work"
    done
}

# The journal is replayed, nothing that was safe is missing, and the file system is whole.
look_at_what_is_left() {
    step mount -t ext4 /dev/nbd0 /mnt
    (cd /mnt && find . -type f | sort | xargs md5sum) > /sums
    step umount /mnt
    step /programs/e2fsck -f -n /dev/nbd0
    sed 's/^/guest: sum /' /sums
    step /programs/nbd-client -d /dev/nbd0
    echo "guest: done"
    poweroff -f
}

case $phase in
    write) write_until_the_end; echo "guest: the disk is gone"; poweroff -f ;;
    check) look_at_what_is_left ;;
esac

step /programs/mke2fs -q -F -t ext4 /dev/nbd0
step mount -t ext4 /dev/nbd0 /mnt

# Several writers at once, files of many sizes.
writer() {
    mkdir "/mnt/$1"
    for file in 1 2 3 4 5 6 7 8 9 10 11 12; do
        dd if=/dev/urandom "of=/mnt/$1/$file" bs=4093 count=$((file * file)) 2>/dev/null || return 1
        [ $((file % 4)) = 0 ] && sync
    done
    return 0
}
pids=""
for name in a b c; do writer $name & pids="$pids $!"; done
for pid in $pids; do step wait "$pid"; done
(cd /mnt && find . -type f | sort | xargs md5sum) > /sums
step sync
step umount /mnt
step /programs/e2fsck -f -n /dev/nbd0

# Everything again from the device, twice: the second time from the cache.
for pass in 1 2; do
    echo 3 > /proc/sys/vm/drop_caches
    step mount -t ext4 -o ro /dev/nbd0 /mnt
    (cd /mnt && md5sum -c /sums > /checked) || failed "pass $pass: a file differs"
    step umount /mnt
done

# Delete, give back, write anew.
step mount -t ext4 -o discard /dev/nbd0 /mnt
step rm -r /mnt/b
step fstrim /mnt
step cp -r /mnt/a /mnt/d
step sync
(cd /mnt && grep -v ' \./b/' /sums | md5sum -c > /checked) || failed "a file differs after the discard"
(cd /mnt && find . -type f | sort | xargs md5sum) > /sums
step umount /mnt
step /programs/e2fsck -f -n /dev/nbd0
step /programs/nbd-client -d /dev/nbd0
sed 's/^/guest: sum /' /sums
echo "guest: done"
poweroff -f
