# Does the pages' scripts one after the other, and switches the machine off. What they print is judged outside; the line "guest: done" comes last.

export LC_ALL=C HOME=/
for page in /stacks/*.sh; do
    echo "guest: page $(basename "$page" .sh)"
    mkdir -p "/run/page"
    (cd /run/page && timeout 900 bash "$page" 2>&1)
    echo "guest: it ended with $?"
    rm -rf /run/page
done
journalctl --boot --no-pager --unit hotset.service | tail -n 20
if dmesg | grep -iE "i/o error|ext4-fs error|xfs.*corruption"; then echo "guest: FAILED: the kernel saw an error"; fi
echo "guest: done"
poweroff -f
