# Sourced: starts the daemon on this machine's disks, which outlive it, and in the first boot makes a pool and volumes.

# Two SSDs, the backing devices of three volumes, and a disk for the daemon's state, by their serial numbers.
for device in /sys/block/vd*; do
    ln -s "/dev/${device##*/}" "/dev/disk-$(cat "$device/serial")"
done
mkdir -p /state /run /etc/udev/rules.d
[ "$boot" != 0 ] || step /programs/mke2fs -q -F -t ext4 /dev/disk-state
step mount -t ext4 /dev/disk-state /state

# Who has something to do before the daemon starts defines this.
if type before_the_daemon > /dev/null 2>&1; then before_the_daemon; fi

export HOTSET_API=unix:/run/api
# For local devices, the best that the kernel has.
driver=nbd
[ ! -e /dev/ublk-control ] || driver=ublk
# The volume is a local device, and the daemon serves it.
is_local() { /programs/hotset volume show "$1" | grep -q "^Local device.*by $driver)$"; }
start_daemon() {
    "${1:-/programs/hotset}" serve --state /state/hotset --api $HOTSET_API --api tcp:127.0.0.1:9000 --nbd tcp:0.0.0.0:10809 --missing-wait 1 \
        >> /run/log 2>&1 &
    daemon=$!
    until /programs/hotset status > /run/status 2>&1; do
        kill -0 $daemon 2> /dev/null || { cat /run/log; failed "the daemon ended"; }
        sleep 0.2
    done
}
start_daemon

if [ "$boot" = 0 ]; then
    step /programs/hotset pool create p --type read-write --io-type custom --block-size 64K --ssd /dev/disk-ssd0 /dev/disk-ssd1
    for volume in pages ext4 xfs; do
        step /programs/hotset volume create $volume --backing /dev/disk-$volume --pool p
    done
else
    sed 's/^/guest: status /' /run/status
fi
# A boot is over sooner; one that is not tells what it waits for.
(
    sleep 60
    echo "guest: up for a minute"
    tail -n 20 /run/log
    /programs/hotset status
    for thread in /proc/$daemon/task/*; do echo "$(cat "$thread/comm") $(cat "$thread/wchan") $(cut -d ' ' -f 3,14,15 "$thread/stat")"; done
    dmesg | tail -n 20
) &
echo "guest: serving"
