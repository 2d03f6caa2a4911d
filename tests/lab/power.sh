# Sourced by guest.sh. The daemon runs in here, on disks that lose at a power cut what was not flushed. Each boot serves
# what the cut before left, checks the file systems, and then works on one of them until the power goes; the last boot
# empties the cache instead. The host looks at the volume "pages" over the network meanwhile.
#
# The file systems are on the kernel's NBD client, which a program connects by TCP; in phase "local_power" on local devices.

. /daemon.sh
case $phase in
    power)
        for volume in ext4:0 xfs:1; do
            step /programs/nbd-client -b 512 -N ${volume%:*} 127.0.0.1 10809 /dev/nbd${volume#*:} > /dev/null
        done
        ext4=/dev/nbd0 xfs=/dev/nbd1
        ;;
    local_power)
        for volume in ext4 xfs; do
            [ "$boot" != 0 ] || step /programs/hotset volume set $volume local=on
            # At later boots the daemon makes it by itself.
            until [ -b /dev/hotset/$volume ]; do
                kill -0 $daemon 2> /dev/null || { cat /run/log; failed "the daemon ended"; }
                sleep 0.2
            done
        done
        ext4=/dev/hotset/ext4 xfs=/dev/hotset/xfs
        ;;
esac

# The journal is replayed, the file system is whole, and the host learns what is there.
check() {
    step mount -t "$1" "$2" /mnt
    (cd /mnt && find . -type f | sort | xargs md5sum) > /run/sums
    step umount /mnt
    case $1 in
        ext4) step /programs/e2fsck -f -n "$2" ;;
        xfs) step /programs/xfs_repair -n "$2" > /run/repair 2>&1 || { cat /run/repair; failed "xfs_repair"; } ;;
    esac
    sed "s/^/guest: sum $1 /" /run/sums
    echo "guest: checked $1"
}

if [ "$boot" = 0 ]; then
    step /programs/mke2fs -q -F -t ext4 $ext4
    step /programs/mkfs.xfs -q -f --unsupported -l size=8m $xfs
elif [ "$last" = 1 ]; then
    check ext4 $ext4
    check xfs $xfs
elif [ $((boot % 2)) = 1 ]; then
    check ext4 $ext4
else
    check xfs $xfs
fi

if [ "$last" = 1 ]; then
    read -r word < /dev/console
    case $phase in
        power) for device in $ext4 $xfs; do step /programs/nbd-client -d $device; done ;;
        local_power) for volume in ext4 xfs; do step /programs/hotset volume set $volume local=off; done ;;
    esac
    for volume in pages ext4 xfs; do step /programs/hotset volume disable-cache $volume; done
    echo "guest: done"
    poweroff -f
fi

# Files that are safe by fsync are told, each with its sum; what an earlier boot left makes room.
case $((boot % 2)) in
    0) name=ext4 device=$ext4 ;;
    1) name=xfs device=$xfs ;;
esac
step mount -t $name $device /mnt
echo "guest: forget $name"
rm -rf /mnt/boot-*
mkdir /mnt/boot-$boot
round=0
while true; do
    round=$((round + 1))
    file=boot-$boot/$((round % 4))/$round
    mkdir -p "/mnt/${file%/*}" || break
    dd if=/dev/urandom "of=/mnt/$file" bs=3001 count=$((round % 40 + 1)) 2> /dev/null || break
    [ $((round % 3)) != 0 ] || rm -f "/mnt/boot-$boot/$(((round - 2) % 4))/$((round - 2))" || break
    if [ $((round % 3)) = 0 ]; then
        sync "/mnt/$file" || break
        echo "guest: safe $name $(cd /mnt && md5sum "./$file")"
    fi
done
failed "the file system is gone"
