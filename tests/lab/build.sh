#!/bin/sh
# build.sh FOLDER [qemu-nbd | HOTSET [database | local | ublk | systemd]]: makes FOLDER/vmlinuz and FOLDER/initrd.gz, the virtual machine in which the
# kernel's own NBD client is tried, with "qemu-nbd" FOLDER/initrd-reconnect, in which that program stands between the kernel
# and the daemon, and with the program HOTSET FOLDER/initrd-daemon, in which the daemon itself runs too, and with
# "database" FOLDER/initrd-database, in which there is PostgreSQL besides, with "local" FOLDER/initrd-local, in which there is fio, with "systemd" FOLDER/initrd-systemd, which starts as Debian does, with "ublk" both
# of these with a newer kernel. The kernel is Debian's, unmodified, unpacked from its package; the programs are this machine's. What is there
# already is kept, but for the small parts.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
PATH=$PATH:/usr/sbin:/sbin

# Debian's kernel for virtual machines: a third of the size of the other, with all that is needed here.
lists=""
fetch_kernel() {
    package=$(apt-cache $lists depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[^ ]*\)/\1/p' | head -1)
    [ -n "$package" ] || return 1
    rm -rf kernel download
    mkdir download
    (cd download && apt-get $lists -q -o APT::Sandbox::User=root download "$package" >/dev/null) || return 1
    dpkg -x download/*.deb kernel
    rm -rf download
    depmod -b kernel "$(ls kernel/lib/modules)"
    cp kernel/boot/vmlinuz-* vmlinuz.new
    mv vmlinuz.new vmlinuz
}

# Lists of packages that are missing or too old are the usual reason for a failure.
update_lists() {
    if [ "$(id -u)" = 0 ]; then apt-get -q update >/dev/null; else sudo -n apt-get -q update >/dev/null; fi
}

# The kernel of Debian's backports, which has ublk: by lists of packages of our own, beside those of the machine.
use_backports() {
    mkdir -p apt/lists/partial apt/cache/archives/partial
    signed=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$signed] http://deb.debian.org/debian bookworm-backports main" > apt/sources.list
    lists="-o Dir::Etc::sourcelist=$PWD/apt/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$PWD/apt/lists"
    lists="$lists -o Dir::Cache=$PWD/apt/cache -o APT::Sandbox::User=root"
    apt-get $lists -q update >/dev/null
}

# In a folder beside this one: machines of one kernel unpack it once, whoever of them is first.
kernels=$PWD/../lab-kernel
[ "${3:-}" != ublk ] || kernels=$kernels-ublk
mkdir -p "$kernels"
(
    cd "$kernels"
    flock 9
    if [ "${3:-}" = ublk ] && ! [ -e vmlinuz ] && ! { use_backports && fetch_kernel; }; then
        echo "build.sh: no kernel of bookworm-backports: deb.debian.org has to be within reach once" >&2
        exit 1
    fi
    if ! [ -e vmlinuz ] && ! fetch_kernel && ! { update_lists && fetch_kernel; }; then
        echo "build.sh: no linux-image-cloud-amd64 from apt: a Debian with its package lists is needed (apt-get update)" >&2
        exit 1
    fi
) 9> "$kernels.lock"
rm -rf kernel
ln -s "$kernels/kernel" kernel
ln -f "$kernels/vmlinuz" vmlinuz
release=$(ls kernel/lib/modules)

rm -rf root
mkdir -p root/bin root/dev root/proc root/sys root/mnt root/modules root/programs
cp "$(command -v busybox)" root/bin/busybox
# The daemon finds its tools (blkid) where administrators' programs are.
ln -s programs root/sbin
cp "$here/guest.sh" root/init
cp "$here/daemon.sh" "$here/power.sh" "$here/database.sh" "$here/udev.sh" "$here/systemd.sh" "$here/packages.sh" "$here/local.sh" "$here/local_memory.sh" "$here/disk.sh" root/
chmod +x root/init

# What each module needs comes before it.
for module in virtio_pci virtio_net virtio_blk crc32c_generic ext4 xfs nbd ${3:+$(test "$3" = ublk && echo ublk_drv)}; do
    modprobe -d kernel -S "$release" --show-depends "$module" 2>/dev/null || true
done | awk '/^insmod/ && !seen[$2]++ { print $2 }' | while read -r file; do
    case $file in
        *.xz) xz -dc "$file" > "root/modules/$(basename "$file" .xz)" ;;
        *) cp "$file" root/modules/ ;;
    esac
    echo "/modules/$(basename "$file" .xz)" >> root/modules/order
done

# A program with the libraries that it needs.
add_program() {
    cp "$2" "$1/programs/"
    ldd "$2" | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$1$(dirname "$library")"
        cp -L "$library" "$1$library"
    done
}
for program in nbd-client mke2fs e2fsck mkfs.xfs xfs_repair blkid; do
    add_program root "$(command -v "$program")"
done

(cd root && find . | cpio --quiet -o -H newc | gzip -1) > initrd.gz
[ -n "${2:-}" ] || exit 0

if [ "$2" = qemu-nbd ]; then
    rm -rf reconnect
    mkdir -p reconnect/programs
    add_program reconnect "$(command -v qemu-nbd)"
    (cd reconnect && find . | cpio --quiet -o -H newc) | cat - initrd.gz > initrd-reconnect
    exit 0
fi

# One archive after the other. Not compressed: the virtual machine copies faster than it unpacks.
rm -rf daemon
mkdir -p daemon/programs
add_program daemon "$2"
strip daemon/programs/*
# udev, with the rules that tell block devices apart.
add_program daemon "$(command -v udevadm)"
ln -s udevadm daemon/programs/systemd-udevd
mkdir -p daemon/lib/udev/rules.d daemon/usr/lib
ln -s /lib/udev daemon/usr/lib/udev
for rules in 50-udev-default 60-block 60-persistent-storage; do
    cp "/lib/udev/rules.d/$rules.rules" daemon/lib/udev/rules.d/
done
cp "$here/../../contrib/61-hotset.rules" daemon/lib/udev/rules.d/
(cd daemon && find . | cpio --quiet -o -H newc) | cat - initrd.gz > initrd-daemon

# systemd with the few units that lead to local file systems, and ours as they are shipped.
if [ "${3:-}" = systemd ] || [ "${3:-}" = ublk ]; then
    rm -rf systemd
    units=systemd/etc/systemd/system
    mkdir -p systemd/programs systemd/bin systemd/usr/bin systemd/lib/systemd/system systemd/lib/systemd/system-generators \
        systemd/lib/udev/rules.d $units/sysinit.target.wants
    for program in /lib/systemd/systemd /bin/mount /bin/umount /bin/systemctl; do add_program systemd $program; done
    mv systemd/programs/systemd systemd/lib/systemd/
    mv systemd/programs/mount systemd/programs/umount systemd/programs/systemctl systemd/bin/
    ln -s /programs/udevadm systemd/lib/systemd/systemd-udevd
    ln -s /programs/hotset systemd/usr/bin/hotset
    ln -s /programs/udevadm systemd/bin/udevadm
    cp /lib/systemd/system-generators/systemd-fstab-generator systemd/lib/systemd/system-generators/
    cp /lib/udev/rules.d/99-systemd.rules systemd/lib/udev/rules.d/
    for unit in local-fs-pre.target local-fs.target sysinit.target shutdown.target umount.target \
        systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service; do
        cp "/lib/systemd/system/$unit" systemd/lib/systemd/system/
    done
    for unit in systemd-udevd.service systemd-udev-trigger.service; do
        ln -s "/lib/systemd/system/$unit" $units/sysinit.target.wants/
    done
    cp "$here/../../contrib/hotset.service" "$here/../../contrib/hotset-replace.service" $units/
    ln -s ../hotset.service $units/sysinit.target.wants/
    printf '[Unit]\nRequires=sysinit.target check.service\n' > $units/default.target
    printf '[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\nRequires=local-fs.target\nOnFailure=gave-up.service\n[Service]\nType=oneshot\nExecStart=/check.sh local-fs\n' \
        > $units/check.service
    printf '[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/check.sh "the local file systems are not there"\n' \
        > $units/gave-up.service
    mkdir -p "$units/local-fs.target.d"
    printf '[Unit]\nOnFailure=\nOnFailure=gave-up.service\n' > $units/local-fs.target.d/check.conf
    echo "root:x:0:0::/:/bin/sh" > systemd/etc/passwd
    for group in root:0 tty:5 disk:6 lp:7 kmem:15 dialout:20 cdrom:24 tape:26 audio:29 video:44 input:101 sgx:102 kvm:103 render:104; do
        echo "${group%:*}:x:${group#*:}:"
    done > systemd/etc/group
    printf 'ID=debian\nNAME=Debian\n' > systemd/etc/os-release
    echo 0123456789abcdef0123456789abcdef > systemd/etc/machine-id
    (cd systemd && find . | cpio --quiet -o -H newc) | cat - initrd-daemon > initrd-systemd
fi
# fio, for the volumes that are block devices of the machine.
if [ "${3:-}" = local ] || [ "${3:-}" = ublk ]; then
    rm -rf local
    mkdir -p local/programs
    add_program local "$(command -v fio)"
    (cd local && find . | cpio --quiet -o -H newc) | cat - initrd-daemon > initrd-local
    exit 0
fi
[ "${3:-}" = database ] || exit 0

# PostgreSQL, where its package has it, and a new cluster. The server refuses to run as root.
programs=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
if [ -z "$programs" ]; then
    echo "build.sh: no PostgreSQL in /usr/lib/postgresql (apt-get install postgresql)" >&2
    exit 1
fi
version=$(basename "$(dirname "$programs")")
rm -rf database
mkdir -p "database$programs" "database$programs/../lib" database/usr/share/postgresql database/programs
for program in postgres psql pgbench pg_ctl pg_amcheck pg_checksums; do
    add_program database "$programs/$program"
    mv "database/programs/$program" "database$programs/"
done
cp "$programs"/../lib/plpgsql.so "$programs"/../lib/dict_snowball.so "$programs"/../lib/amcheck.so "database$programs/../lib/"
cp -r "/usr/share/postgresql/$version" database/usr/share/postgresql/
ln -s "$programs" database/postgres
cluster=$(mktemp -d)
as_server=""
if [ "$(id -u)" = 0 ]; then
    chown nobody "$cluster"
    as_server="setpriv --reuid=nobody --clear-groups"
fi
# Small segments of the log: it is reused all the time. GMT is the only time zone that needs no file.
(cd "$cluster" && TZ=GMT $as_server "$programs/initdb" --pgdata="$cluster/data" --data-checksums --username=pg --no-locale \
    --auth=trust --encoding=UTF8 --wal-segsize=1 --no-sync >/dev/null)
cp -r "$cluster/data" database/cluster
rm -rf "$cluster"
(cd database && find . | cpio --quiet -o -H newc) | cat - initrd-daemon > initrd-database
