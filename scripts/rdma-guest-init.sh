#!/bin/busybox sh
# shellcheck shell=dash
# The first process of the guest that test-rdma.sh boots: it makes the host's files
# its root, with a RAM disk over them, sets up Soft-RoCE and runs rdma-tests.sh.
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do
	$busybox insmod "/modules/$module" || echo "insmod $module failed"
done </modules/order

$busybox mkdir -p /ram && $busybox mount -t tmpfs -o size=1g tmpfs /ram
$busybox mkdir -p /ram/upper /ram/work
$busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /host
$busybox mount -t overlay -o lowerdir=/host,upperdir=/ram/upper,workdir=/ram/work overlay /root
for dir in proc sys dev; do
	$busybox mount --move /$dir /root/$dir
done
$busybox mkdir -p /root/dev/shm && $busybox mount -t tmpfs tmpfs /root/dev/shm

tree=$($busybox sed -n 's/.*tree=\([^ ]*\).*/\1/p' /root/proc/cmdline)
tries=$($busybox sed -n 's/.*tries=\([0-9]*\).*/\1/p' /root/proc/cmdline)
$busybox cat >/root/start-rdma <<START
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
cd $tree || exit 1
# Two devices with a wire between them in one network namespace, which is all that
# Soft-RoCE knows: local addresses are looked up last on output, so that what goes to
# the other one takes the wire.
sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.accept_local=1
ip link set lo up
ip link add v0 type veth peer name v1
for i in 0 1; do
	sysctl -qw net.ipv4.conf.v\$i.accept_local=1 net.ipv4.conf.v\$i.rp_filter=0 net.ipv4.conf.v\$i.arp_ignore=1
	ip link set v\$i mtu 4200 up
	ip addr add 10.77.0.\$((i + 1))/32 dev v\$i
	ip rule add pref 10 iif v\$i lookup local
done
cat >/rdma-link <<'LINK'
#!/bin/sh
case \$1 in
cut) # both ends send to nobody
	ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:99 dev v0 nud permanent
	ip neigh replace 10.77.0.1 lladdr 02:00:00:00:00:99 dev v1 nud permanent
	;;
mend)
	ip neigh del 10.77.0.2 dev v0
	ip neigh del 10.77.0.1 dev v1
	;;
down) ip link set v0 down ;;
up) # the routes went with the link
	ip link set v0 up
	ip route replace 10.77.0.2 dev v0 src 10.77.0.1 table 100
	ip route replace 10.77.0.1 dev v1 src 10.77.0.2 table 100
	;;
esac
LINK
chmod +x /rdma-link && /rdma-link up
ip rule add pref 50 to 10.77.0.2 lookup 100
ip rule add pref 60 from 10.77.0.2 to 10.77.0.1 lookup 100
ip rule add pref 1000 lookup local
ip rule del pref 0
rdma link add rxe0 type rxe netdev v0 || exit 1
rdma link add rxe1 type rxe netdev v1 || exit 1
# A third one over an interface on PCIe, which is connected to nothing.
ip link set eth0 up
rdma link add rxe2 type rxe netdev eth0 || exit 1
ulimit -l unlimited
export CI_REQUIRE_NETEM=1 CI_REQUIRE_NAMESPACES=1
RDMA_TEST_BUS=rxe2 RDMA_TRIES=$tries scripts/rdma-tests.sh $tree/bin/rdma rxe0 rxe1 /rdma-link
START
$busybox chroot /root /bin/bash /start-rdma && echo "rdma tests: passed" || echo "rdma tests: failed"
$busybox poweroff -f
