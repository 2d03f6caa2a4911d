# What a person does on an empty Debian, from installing the package to purging it, with a restart of the machine in between. A line "FAILED"
# or a missing line "guest: done" is a failure.

export LC_ALL=C DEBIAN_FRONTEND=noninteractive

failed() {
    echo "guest: FAILED: $1"
    systemctl --no-pager --failed
    journalctl --boot --no-pager | tail -n 80
    poweroff -f
}

step() {
    echo "guest: $*"
    "$@" || failed "$*"
}

value() { systemctl show --property="$1" --value "$2"; }

# As the README of udev has it: by the serial number.
disk() { echo "/dev/disk/by-id/virtio-$1"; }

# Files come and go; each is read again, past the page cache.
load() {
    round=0
    until [ -e /run/enough ]; do
        round=$((round + 1))
        file=/srv/data/$((round % 8))
        dd if=/dev/urandom of=$file bs=4093 count=$((round % 50 + 1)) conv=fsync 2> /dev/null || break
        sum=$(md5sum < $file)
        echo 3 > /proc/sys/vm/drop_caches
        [ "$(md5sum < $file)" = "$sum" ] || break
        echo $round > /run/round
    done
    [ -e /run/enough ] || touch /run/load-failed
}

# It went on so many times.
rounds() {
    until [ "$(cat /run/round 2> /dev/null || echo 0)" -ge "$1" ]; do
        [ ! -e /run/load-failed ] || failed "the file system under load"
        sleep 0.2
    done
}

if ! [ -e /packages/restarted ]; then
    # docs/INSTALL.md, line by line.
    step sh -ex /packages/install.sh
    step systemctl is-active hotset.service hotset.socket
    step systemctl is-enabled hotset.service hotset.socket
    systemd-analyze security --no-pager hotset.service | tail -n 1
    step mountpoint /srv/data

    load &
    rounds 3
    before=$(value MainPID hotset.service)
    since=$(value ActiveEnterTimestampMonotonic srv-data.mount)
    step dpkg --install /packages/newer.deb
    [ "$(value MainPID hotset.service)" != "$before" ] || failed "the daemon was not replaced"
    rounds $(($(cat /run/round) + 5))
    touch /run/enough
    wait
    [ ! -e /run/load-failed ] || failed "the file system under load"
    if dmesg | grep -iE "i/o error|ext4-fs error"; then failed "the kernel saw an error"; fi
    [ "$(value ActiveEnterTimestampMonotonic srv-data.mount)" = "$since" ] || failed "it was unmounted"
    echo "guest: upgraded under load"

    # A configuration that the new daemon would refuse leaves the old one at work; the message says what to do then.
    cp /etc/hotset/hotset.toml /run/right.toml
    sed -i '1i wrong = 1' /etc/hotset/hotset.toml
    before=$(value MainPID hotset.service)
    dpkg --install /packages/newer.deb > /run/kept 2>&1 || failed "a wrong configuration fails the package"
    cat /run/kept
    step grep "the daemon was not restarted" /run/kept
    step grep "hotset.toml: .*line 1" /run/kept
    [ "$(value MainPID hotset.service)" = "$before" ] || failed "the daemon was replaced by one that takes no configuration"
    cp /run/right.toml /etc/hotset/hotset.toml
    step systemctl start hotset-replace.service
    [ "$(value MainPID hotset.service)" != "$before" ] || failed "the daemon was not replaced after the correction"
    [ "$(value ActiveEnterTimestampMonotonic srv-data.mount)" = "$since" ] || failed "it was unmounted by the replacement"
    echo "guest: a wrong configuration left the old daemon at work"

    # The rules that keep the system off backing devices are in an initial RAM disk.
    echo MODULES=list > /etc/initramfs-tools/conf.d/small
    # Of the kernel's package, which is not here.
    echo CONFIG_RD_GZIP=y > "/boot/config-$(uname -r)"
    step mkinitramfs -o /run/initrd
    lsinitramfs /run/initrd > /run/in-initrd
    step grep -x usr/lib/udev/rules.d/63-z-hotset.rules /run/in-initrd

    if dpkg --install /packages/older.deb > /run/refused 2>&1; then failed "the downgrade was done"; fi
    cat /run/refused
    step grep "on-disk formats up to" /run/refused
    step systemctl is-active hotset.service
    echo newest > /srv/data/file
    step sync
    touch /packages/restarted
    step sync
    echo "guest: restarting"
    systemctl poweroff
    exit 0
fi

step mountpoint /srv/data
step grep -x newest /srv/data/file
step grep -q '^/dev/nbd0 /srv/data' /proc/mounts
step umount /srv/data
echo "guest: mounted at the start"

# udev looks at no device that a daemon has locked.
step systemctl stop hotset.socket hotset.service
step udevadm trigger --settle --action=change --sysname-match="$(basename "$(readlink -f "$(disk ssd0)")")"
udevadm info --query=property "$(disk ssd0)" > /run/properties
step grep -x ID_FS_TYPE=hotset_member /run/properties
step systemctl start hotset.socket hotset.service
# Whoever uses a volume as a device would wait for a daemon that does not come.
step mount /srv/data
exec 9> /srv/data/open
if dpkg --remove hotset > /run/refused 2>&1; then failed "the program was taken from under a file system in use"; fi
cat /run/refused
step grep "not removed: volumes are in use.*data" /run/refused
step systemctl is-active hotset.service hotset.socket
step sync
exec 9>&-
step umount /srv/data
echo "guest: a removal was refused"

# What stays dirty on the SSDs is told to whoever takes the program away.
step hotset pool set fast dirty-watermark=90 dirty-age=30d flush-rate=low
step hotset volume set data write-cutoff=off
# More than is flushed by itself until the daemon stops: then nothing would be at risk, and no rule be needed.
make_dirty() {
    step dd if=/dev/urandom of=/dev/hotset/data bs=1M count=64 oflag=direct
}
make_dirty
dpkg --remove hotset > /run/removed 2>&1 || failed "the package is not removed"
cat /run/removed
step grep "data at risk: .*MiB" /run/removed
step grep "63-z-hotset.rules stays" /run/removed
[ ! -e /usr/bin/hotset ] || failed "the program is left"
[ -s /var/lib/hotset/pools/fast.member ] || failed "the state is gone"
# Installed again, it goes on, and what was removed once can be removed once more.
step dpkg --install /packages/newer.deb
step systemctl is-active hotset.service hotset.socket
step systemctl is-enabled hotset.service hotset.socket
make_dirty
step dpkg --remove hotset
echo "guest: installed again"
before=$(md5sum "$(disk ssd0)" "$(disk ssd1)" "$(disk backing)")
dpkg --purge hotset > /run/purged 2>&1 || failed "the package is not purged"
cat /run/purged
step grep "pools fast" /run/purged
[ ! -e /var/lib/hotset ] || failed "the state is left"
step grep "63-z-hotset.rules stays" /run/purged
[ -s /etc/udev/rules.d/63-z-hotset.rules ] || failed "nothing keeps the system off stale backing devices"
[ "$(md5sum "$(disk ssd0)" "$(disk ssd1)" "$(disk backing)")" = "$before" ] || failed "a device was touched"
[ "$(head -c 8 "$(disk ssd0)")" = HOTSETsb ] || failed "the SSD is none of a pool any more"
echo "guest: done"
poweroff -f
