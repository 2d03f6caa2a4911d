# Sourced by guest.sh. The machine goes on as the Debian that is on its disk "root".

for device in /sys/block/vd*; do
    ln -s "/dev/${device##*/}" "/dev/disk-$(cat "$device/serial")"
done
mkdir -p /system
step mount -t ext4 "$(readlink /dev/disk-root)" /system
for folder in dev proc sys; do step mount --move /$folder /system/$folder; done
exec switch_root /system /lib/systemd/systemd --log-target=console --log-level=warning
