# Sourced by guest.sh. The machine's only disk is /dev/vda, and what gives it that disk is replaced meanwhile. Files come and go, each read again
# from the disk, until the disk has grown; then what was added is used, and everything is read again.

mib() { echo $(($(cat /sys/block/vda/size) / 2048)); }

small=$(mib)
echo "guest: a disk of $small MiB"
step /programs/mke2fs -q -F -t ext4 /dev/vda
step mount -t ext4 /dev/vda /mnt
while [ "$(mib)" = "$small" ]; do
    write_and_read_a_file
done
large=$(mib)
echo "guest: a disk of $large MiB"
step umount /mnt
step /programs/e2fsck -f -n /dev/vda
step mount -t ext4 -o ro /dev/vda /mnt
(cd /mnt && cat /run-* | md5sum -c > /checked) || failed "a file differs in the end"
step umount /mnt
dd if=/dev/urandom of=/piece bs=1M count=1 2>/dev/null
step dd if=/piece of=/dev/vda bs=1M seek=$((large - 1)) conv=fsync
echo 3 > /proc/sys/vm/drop_caches
dd if=/dev/vda of=/piece.back bs=1M skip=$((large - 1)) 2>/dev/null
step cmp /piece /piece.back
if dmesg | grep -iE "i/o error|ext4-fs error"; then failed "the kernel saw an error"; fi
echo "guest: done"
poweroff -f
