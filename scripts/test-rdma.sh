#!/usr/bin/env bash
# Tests the verbs device, datagrams, copyrpc, erpc and ofi on it; ofi where libfabric is installed. And tests
# networks, since the guest's kernel has netem, which this machine's may lack.
#
#	test-rdma.sh          on Soft-RoCE, in a guest that QEMU emulates
#	test-rdma.sh DEVICE   on an RDMA device of this machine, such as mlx5_0
#
# The guest has a Debian kernel and this machine's files, read-only. Everything that
# is made lies in bin/rdma. What this cannot do for lack of a program or of the
# processor's kind, it says, and that is no failure unless CI_REQUIRE_RDMA is set; nor is a
# guest in which nothing failed in RDMA_LIMIT seconds (1800) and which is not done by then.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

device=${1:-}
work=$PWD/bin/rdma

cannot() {
	[ -z "${CI_REQUIRE_RDMA:-}" ] || die "the verbs device goes untested: $*"
	untested "the verbs device" "$*"
	exit 0
}

# missing prints those packages whose programs are not there.
missing() {
	have pkg-config || echo pkg-config
	have gcc || printf '%s\n' gcc libc6-dev
	pkg-config --exists libibverbs 2>/dev/null || echo libibverbs-dev
	have ib_write_lat || echo perftest
	have rdma || echo iproute2
	have ibv_devices || echo ibverbs-utils
	# The providers of libibverbs, of which rxe is one.
	compgen -G '/etc/libibverbs.d/rxe.driver' >/dev/null || echo ibverbs-providers
	[ -n "$device" ] && return
	have qemu-system-x86_64 || echo qemu-system-x86
	have busybox && busybox --help 2>&1 | grep -q static || [ -x /bin/busybox ] || echo busybox-static
	have cpio || echo cpio
	have depmod || [ -x /usr/sbin/depmod ] || echo kmod
}

build() {
	local tags
	mkdir -p "$work"
	tags=ibverbs
	! pkg-config --exists libmlx5 || tags+=,mlx5
	CGO_ENABLED=1 go test -c -tags "$tags" -o "$work/" ./core/base/carrier ./core/lab/experiment/network ./core/fabric/rdma/devices ./core/fabric/datagram ./plugins/copyrpc
	# These call C as decision 0030 rejects, so that this still works; datagram and copyrpc do it as usual, too.
	CGO_ENABLED=1 go test -c -tags "$tags,plaincgo" -o "$work/" ./plugins/erpc
	CGO_ENABLED=1 go test -c -tags "$tags,plaincgo" -o "$work/copyrpc-plain.test" ./plugins/copyrpc
	rm -f "$work/ofi.test"
	if pkg-config --exists libfabric 2>/dev/null; then
		CGO_ENABLED=1 go test -c -tags ofi -o "$work/" ./plugins/ofi
	fi
	CGO_ENABLED=0 go build -o "$work/" ./cmd/transportbench
	# The tests of the command build what they run, which the guest cannot.
	CGO_ENABLED=0 go test -c -o "$work/" ./cmd/transportbench
	(cd cmd/transportbench && "$work/transportbench.test" -test.run '^$')
	CGO_ENABLED=1 go build -tags "$tags" -o "$work/" ./cmd/transports-libc
	ln -sf transports-libc "$work/transport-copyrpc"
	ln -sf transports-libc "$work/transport-erpc"
}

# fetch_kernel downloads Debian's kernel once and unpacks what the guest needs of it.
fetch_kernel() {
	local package
	package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
	[ -n "$package" ] || package=$(find "$work" -maxdepth 1 -name 'linux-image-*.unpacked' -printf '%f\n' | sort | tail -n 1 | sed 's/\.unpacked$//')
	[ -n "$package" ] || return 1
	kernel=$work/$package.unpacked
	[ ! -e "$kernel/complete" ] || return 0
	say "downloading $package for the guest"
	rm -rf "$kernel" && mkdir -p "$kernel"
	(cd "$kernel" && apt-get download -qq "$package" 2>/dev/null && dpkg -x ./*.deb . && rm ./*.deb) || return 1
	PATH=$PATH:/usr/sbin depmod -b "$kernel" "$(ls "$kernel/lib/modules")" && touch "$kernel/complete"
}

# initramfs makes a first root with the modules that mount the real one.
initramfs() {
	local root=$work/initramfs version module
	version=$(ls "$kernel/lib/modules")
	rm -rf "$root" && mkdir -p "$root"/{bin,dev,proc,sys,host,root,modules}
	cp "$(command -v busybox)" "$root/bin/busybox"
	: >"$root/modules/order"
	# Without the crc32 modules rdma_rxe cannot add a device.
	for module in crc32_generic crc32c_generic virtio_pci 9pnet_virtio 9p overlay veth bridge tun sch_netem e1000e rdma_rxe ib_uverbs rdma_ucm; do
		PATH=$PATH:/usr/sbin modprobe -d "$kernel" -S "$version" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'
	done | awk '!seen[$0]++' | while read -r module; do
		cp "$module" "$root/modules/"
		basename "$module" >>"$root/modules/order"
	done
	cp scripts/rdma-guest-init.sh "$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"
}

guest() {
	local image log=$work/guest.log limit=${RDMA_LIMIT:-1800}
	image=$(find "$kernel/boot" -name 'vmlinuz-*')
	local began=$SECONDS
	say "running the tests on Soft-RoCE in QEMU; the log is $log"
	# The adapter is on a PCIe bus of NUMA node 1, for what a path says of it.
	# KVM hangs in some nested machines, and this has to run in all of them.
	# The guest ends with this script, however that ends.
	setpriv --pdeathsig TERM timeout --foreground "$limit" qemu-system-x86_64 -nodefaults -nographic -no-reboot -machine q35 -accel tcg,thread=multi -cpu max \
		-smp 2 -m 3072 -object memory-backend-ram,id=near,size=2816M -object memory-backend-ram,id=far,size=256M \
		-numa node,nodeid=0,cpus=0-1,memdev=near -numa node,nodeid=1,memdev=far \
		-device pxb-pcie,id=host1,bus_nr=64,numa_node=1 -device pcie-root-port,id=port1,bus=host1,slot=1 -device e1000e,bus=port1 \
		-kernel "$image" -initrd "$work/initramfs.gz" -serial stdio \
		-fsdev local,id=files,path=/,security_model=none,readonly=on,multidevs=remap -device virtio-9p-pci,bus=pcie.0,fsdev=files,mount_tag=host \
		-append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable clocksource=tsc tree=$PWD tries=${RDMA_TRIES:-}" </dev/null | console_text | tee "$log" | sed -un "/== /,\$p" || true
	if [ $((SECONDS - began)) -ge "$limit" ] && ! grep -q -e '^rdma tests: ' -e '--- FAIL' -e '^panic: ' "$log"; then
		cannot "the guest was not done in $limit seconds, for want of processors; what it did had passed"
	fi
	grep -q '^rdma tests: passed' "$log" || die "the tests failed in the guest; see $log"
}

need_go
mapfile -t lacking < <(missing)
if [ ${#lacking[@]} -gt 0 ]; then
	install_packages "the verbs device is tested with it" "${lacking[@]}" || cannot "${lacking[*]} could not be installed"
fi
build
if [ -n "$device" ]; then
	exec scripts/rdma-tests.sh "$work" "$device"
fi
[ "$(uname -m)" = x86_64 ] || cannot "the guest is of the amd64 kind, and this machine is $(uname -m)"
fetch_kernel || cannot "Debian's kernel could not be downloaded"
initramfs
guest
