# Sourced by guest.sh. PostgreSQL on ext4 on a volume of the daemon that runs in here, until the power goes. Each boot but the
# first looks with the database's own means at what the cut before left.

. /daemon.sh
step /programs/nbd-client -b 512 -N ext4 127.0.0.1 10809 /dev/nbd0 > /dev/null
printf 'root:x:0:0::/:/bin/sh\npg:x:70:70::/run:/bin/sh\n' > /etc/passwd
printf 'root:x:0:\npg:x:70:\n' > /etc/group
mkdir -p /dev/shm /run/pg /tmp
chmod 1777 /dev/shm /run/pg /tmp

as_pg() { su pg -c "cd /run/pg && $*"; }
ask() { as_pg "/postgres/psql -h /run/pg -d postgres -qAtc \"$1\""; }

start() {
    as_pg "/postgres/postgres -D /mnt/cluster -k /run/pg -c listen_addresses= \
        -c shared_buffers=16MB -c max_wal_size=8MB -c jit=off -c dynamic_shared_memory_type=mmap" > /run/pg/log 2>&1 &
    server=$!
    until ask "select 1" > /dev/null 2>&1; do
        kill -0 $server 2> /dev/null || { cat /run/pg/log; failed "the database ended"; }
        sleep 0.2
    done
}

if [ "$boot" = 0 ]; then
    step /programs/mke2fs -q -F -t ext4 /dev/nbd0
    step mount -t ext4 /dev/nbd0 /mnt
    step cp -r /cluster /mnt/cluster
    step chown -R pg:pg /mnt/cluster
    step chmod 700 /mnt/cluster
    # As the database's own tool for making clusters does it: nobody else makes these files safe.
    step sync
    start
    step as_pg "/postgres/pgbench -h /run/pg -i -q postgres" > /run/pg/init 2>&1 || { cat /run/pg/init; failed "pgbench -i"; }
    step ask "create extension amcheck; checkpoint"
else
    step mount -t ext4 /dev/nbd0 /mnt
    start
    # Each transaction adds one number to an account, a teller and a branch, and writes it into the history.
    sums=$(ask "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
        (select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history),
        (select count(*) from pgbench_history)") || failed "the sums"
    echo "guest: sums $sums"
    step as_pg "/postgres/pg_amcheck -h /run/pg --heapallindexed postgres"
    step as_pg "/postgres/pg_ctl stop -D /mnt/cluster -m fast" > /dev/null
    step as_pg "/postgres/pg_checksums --check -D /mnt/cluster"
    step umount /mnt
    step /programs/e2fsck -f -n /dev/nbd0
    echo "guest: checked"
    [ "$last" = 0 ] || { echo "guest: done"; poweroff -f; }
    step mount -t ext4 /dev/nbd0 /mnt
    start
fi

# What is told here was committed.
while as_pg "/postgres/pgbench -h /run/pg -n -c 2 -t 15 postgres" > /run/pg/bench 2>&1; do
    echo "guest: committed $(ask "select count(*) from pgbench_history")"
done
cat /run/pg/bench /run/pg/log
failed "the database is gone"
