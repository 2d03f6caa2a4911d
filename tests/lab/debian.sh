# Sourced: an empty Debian, as mmdebstrap makes it, that runs one script at its start and shows on its console what that prints. As root.

# debian FOLDER [PACKAGE...]: unpacks it, with these packages besides, and the virtual machine's kernel modules, into FOLDER/tree, which is $tree. What
# was brought once is kept.
debian() {
    folder=$1
    shift
    packages=systemd,systemd-sysv,udev,kmod,e2fsprogs,init-system-helpers$(printf ',%s' "$@" | sed 's/,$//')
    kept=$folder/debian-$(echo "$packages" | cksum | cut -d ' ' -f 1).tar
    if ! [ -s "$kept" ]; then
        mmdebstrap --quiet --variant=minbase --include="$packages" \
            --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$folder/debian.new.tar"
        mv "$folder/debian.new.tar" "$kept"
    fi
    tree=$folder/tree
    rm -rf "$tree"
    mkdir -p "$tree"
    tar --extract --file "$kept" --directory "$tree"
    cp -r "$folder/kernel/lib/modules" "$tree/usr/lib/"
    echo "LABEL=root / ext4 defaults 0 0" > "$tree/etc/fstab"
}

# image SCRIPT SIZE: makes FOLDER/root.img of the tree, which runs the script (a path in there).
image() {
    cat > "$tree/etc/systemd/system/test.service" <<END
[Unit]
Description=The test
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/bin/sh $1
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
END
    mkdir -p "$tree/etc/systemd/system/graphical.target.wants"
    ln -s /etc/systemd/system/test.service "$tree/etc/systemd/system/graphical.target.wants/test.service"
    for unit in serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer; do
        ln -sf /dev/null "$tree/etc/systemd/system/$unit"
    done
    mke2fs -q -F -t ext4 -L root -d "$tree" "$folder/root.img" "$2"
    rm -rf "$tree"
}
