# Sourced by guest.sh. A file system on a local device is written to until half of the memory has to be written out, and nothing is
# written out before another program asks for that memory, again and again. All is written back in the end, nothing hangs and nothing is
# killed; the kernel says of each thread of the daemon that it waits for no writing, and of its memory that it stays.

. /daemon.sh
hotset=/programs/hotset
# As its unit says.
echo -900 > /proc/$daemon/oom_score_adj
step $hotset volume set ext4 local=on
step is_local ext4
step /programs/mke2fs -q -F -t ext4 /dev/hotset/ext4
step mount -t ext4 /dev/hotset/ext4 /mnt
# The daemon's memory could go there.
step $hotset volume delete xfs
step mkswap /dev/disk-xfs 12288
step swapon /dev/disk-xfs

echo 95 > /proc/sys/vm/dirty_ratio
echo 90 > /proc/sys/vm/dirty_background_ratio
echo 360000 > /proc/sys/vm/dirty_expire_centisecs
echo 0 > /proc/sys/vm/dirty_writeback_centisecs

kib() { sed -n "s/^$1:[[:space:]]*\([0-9]*\) kB/\1/p" /proc/${2:-meminfo}; }

write() {
    dd if=/dev/urandom bs=1M count=24 2> /dev/null | tee /mnt/$1 | md5sum | sed "s/-/$1/" > /run/sum$1
    echo "guest: $(cut -d ' ' -f 1 /proc/uptime) s: file $1 is written, $(kib Dirty) KiB are dirty"
}

# A third of what is said to be there, again and again.
ask_for_memory() {
    until [ -e /run/enough ]; do
        dd if=/dev/zero of=/dev/null bs=$((available / 3))K count=1 2> /dev/null || touch /run/refused
        echo asked >> /run/asked
    done
}
asked() {
    until [ "$(wc -l < /run/asked)" -ge "$1" ]; do sleep 0.2; done
    echo "guest: $(cut -d ' ' -f 1 /proc/uptime) s: memory was given $1 times, $(kib Dirty) KiB are dirty"
}

available=$(kib MemAvailable)
echo "guest: $available KiB of $(kib MemTotal) KiB are available"
write 1
write 2
[ $(($(kib Dirty) * 3)) -gt $available ] || failed "too little is dirty"
touch /run/asked
ask_for_memory &
asked 3
# Now it is asked for and has to be written out all the time.
write 3
asked 7
touch /run/enough
wait $!
step sync
[ "$(kib Dirty)" -lt 1024 ] || failed "$(kib Dirty) KiB are not written back"
echo 3 > /proc/sys/vm/drop_caches
(cd /mnt && cat /run/sum* | md5sum -c) || failed "a file differs"
grep -E "VmLck|VmRSS|VmSwap" /proc/$daemon/status
[ "$(kib VmLck $daemon/status)" -ge "$(kib VmRSS $daemon/status)" ] || failed "the daemon's memory may be swapped out"
[ "$(kib VmSwap $daemon/status)" = 0 ] || failed "$(kib VmSwap $daemon/status) KiB of the daemon are swapped out"
# PF_MEMALLOC_NOIO of include/linux/sched.h: the ninth field, after a name that may have spaces.
for thread in /proc/$daemon/task/*; do
    flags=$(sed 's/.*) //' $thread/stat 2> /dev/null | cut -d ' ' -f 7)
    # It has ended.
    [ -n "$flags" ] || continue
    [ $((flags & 0x80000)) != 0 ] || failed "thread $(cat $thread/comm) may wait for its own device"
done
step umount /mnt
step /programs/e2fsck -f -n /dev/hotset/ext4
if dmesg | grep -iE "i/o error|ext4-fs error|blocked for more than|out of memory"; then failed "the kernel complains"; fi
[ ! -e /run/refused ] || failed "a program got no memory"
echo "guest: done"
poweroff -f
