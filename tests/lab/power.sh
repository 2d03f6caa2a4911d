# Sourced by guest.sh. The daemon runs in here, on disks that lose at a power cut what was not flushed. Each boot serves
# what the cut before left, checks the file systems, and then works on them until the power goes; the last boot
# empties the cache instead. The host looks at the volume "pages" over the network meanwhile.
#
# The file systems are on the kernel's NBD client, which a program connects by TCP; in phase "local_power" on local devices, by the best
# driver that the kernel has, and the volume of xfs has no cache there: only its host has its backing device flushed.

. /daemon.sh
case $phase in
    power)
        for volume in ext4:0 xfs:1; do
            step /programs/nbd-client -b 512 -N ${volume%:*} 127.0.0.1 10809 /dev/nbd${volume#*:} > /dev/null
        done
        ext4=/dev/nbd0 xfs=/dev/nbd1
        ;;
    local_power)
        [ "$boot" != 0 ] || step /programs/hotset volume disable-cache xfs
        for volume in ext4 xfs; do
            [ "$boot" != 0 ] || step /programs/hotset volume set $volume local=on
            # At later boots the daemon makes it by itself.
            until [ -b /dev/hotset/$volume ] && is_local $volume; do
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
else
    check ext4 $ext4
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

# What an earlier boot left makes room.
for name in ext4 xfs; do
    mkdir -p /mnt/$name
    case $name in
        ext4) step mount -t ext4 $ext4 /mnt/ext4 ;;
        xfs) step mount -t xfs $xfs /mnt/xfs ;;
    esac
    rm -rf /mnt/$name/boot-*
    mkdir /mnt/$name/boot-$boot
    echo "guest: forget $name"
done

# Its new content is not yet safe.
write() {
    dd if=/dev/urandom "of=/mnt/$name/$1" bs=3001 count=$((round % 40 + 1)) conv=notrunc 2> /dev/null || failed "$name is gone"
}

# It is, after a sync like this; the sum is taken before, so that the host hears of it at once.
make_safe() {
    sum=$(cd /mnt/$name && md5sum "./$1") && sync $2 "/mnt/$name/$1" || failed "$name is gone"
    echo "guest: safe $name $sum"
}

# A new file: it needs a commit of the journal, which ends with a FUA write.
add_file() {
    write $folder/$round
    make_safe $folder/$round
}

# New content in the blocks of a file that is there: the data and a flush is all that it needs.
overwrite_file() {
    write $folder/$round-twice
    sync "/mnt/$name/$folder/$round-twice" || failed "$name is gone"
    write $folder/$round-twice
    make_safe $folder/$round-twice -d
}

# What comes last on a file system has nothing after it that would make it safe, too.
round=0
while true; do
    round=$((round + 1))
    folder=boot-$boot/$((round % 4))
    for name in xfs ext4; do
        mkdir -p /mnt/$name/$folder || failed "$name is gone"
        case $name$((boot % 2)) in
            xfs0 | ext41) overwrite_file; add_file ;;
            xfs1 | ext40) add_file; overwrite_file ;;
        esac
    done
    echo "guest: round $round"
done
