#!/usr/bin/env bash
# A cluster of hosts for tests: network, host name, IPC, processes and mounts of each are namespaces
# of this machine, and a bridge joins them. Run it as root.
#
#	cluster.sh [-o] [-s] [-k] N               hosts h0 ... hN-1 at 10.78.0.1, 10.78.0.2, ..., until standard input ends
#	cluster.sh [-o] [-s] [-k] N COMMAND...    the same, runs COMMAND on h0, and ends with its exit status
#
#	-o  hosts are containers of one machine: they have its boot ID
#	-s  starts Slurm: the controller on h0, a node on each host
#	-k  starts sshd on each host; root may log in from each to each, by the names of the hosts
#
# Without a COMMAND it prints a line "hK PID" for each host once everything runs; "nsenter -t PID -a"
# enters the host, and "nsenter -t PID_OF_CLUSTER.SH -n ip link set pK down" cuts its cable.
#
# Nothing needs to be removed afterwards: the hosts' processes die with this one, even if it is
# killed, and all its mounts and links are in namespaces that nothing holds then.
set -euo pipefail

fail() {
	printf 'cluster.sh: %s\n' "$*" >&2
	exit 1
}

# usage prints the comment at the top of this script.
usage() { sed -n '2,/^[^#]/s/^#[[:space:]]\{0,1\}//p' "$0"; }

one="" slurm="" ssh=""
while getopts osk-: option; do
	case $option${OPTARG:-} in
	-help)
		usage
		exit
		;;
	o) one=1 ;;
	s) slurm=1 ;;
	k) ssh=1 ;;
	*)
		usage >&2
		exit 1
		;;
	esac
done
if [ -z "${CLUSTER_INSIDE:-}" ]; then
	CLUSTER_INSIDE=1 exec unshare --mount --net "$0" "$@"
fi
unset CLUSTER_INSIDE
shift $((OPTIND - 1))
n=$1
shift

mount -t tmpfs -o mode=755 cluster /run
state=/run/cluster
mkdir "$state"
pids=()

# on HOST COMMAND... runs a command on a host.
on() {
	local host=$1
	shift
	nsenter --target "${pids[${host#h}]}" --all --wd="$PWD" -- "$@"
}

# until_true COMMAND... waits ten seconds at most until COMMAND succeeds.
until_true() {
	local tries
	for ((tries = 0; tries < 400; tries++)); do
		"$@" && return
		sleep 0.025
	done
	return 1
}

# start_host K starts host hK and notes the process that nsenter needs.
start_host() {
	local name=h$1 outer
	mkdir -p "$state/$name"
	local id=/proc/sys/kernel/random/uuid # machines are told apart by their boot IDs
	[ -z "$one" ] || id=/proc/sys/kernel/random/boot_id
	cat "$id" >"$state/$name/boot_id"
	setpriv --pdeathsig KILL unshare --net --uts --ipc --pid --mount --fork --kill-child --mount-proc sh -ec "
		hostname $name
		mount --bind $state/hosts /etc/hosts
		mount --bind $state/$name/boot_id /proc/sys/kernel/random/boot_id
		mount -t tmpfs -o mode=1777 shm /dev/shm
		ip link set lo up
		touch $state/$name/ready
		exec sleep infinity" </dev/null >"$state/$name/log" 2>&1 &
	outer=$!
	until_true test -e "$state/$name/ready" || fail "$name did not start: $(cat "$state/$name/log")"
	pids[$1]=$(cat "/proc/$outer/task/$outer/children")
	pids[$1]=${pids[$1]% }
	ip link add "p$1" type veth peer name eth0 netns "${pids[$1]}"
	ip link set "p$1" master switch up
	on "$name" ip address add "10.78.0.$(($1 + 1))/24" dev eth0
	on "$name" ip link set eth0 up
}

# start_node HOST COMMAND... starts a daemon on a host.
start_node() {
	local host=$1
	shift
	on "$host" "$@" </dev/null >>"$state/$host/log" 2>&1 || fail "$1 on $host: $(cat "$state/$host/log")"
}

configure_ssh() {
	local k key=/etc/ssh/ssh_host_ed25519_key
	mkdir /run/sshd
	mount -t tmpfs ssh /etc/ssh
	ssh-keygen -q -t ed25519 -N '' -f "$key"
	ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/user
	for ((k = 0; k < n; k++)); do
		echo "h$k,10.78.0.$((k + 1)) $(cut -d' ' -f1,2 "$key.pub")"
	done >/etc/ssh/ssh_known_hosts
	printf '%s\n' 'User root' 'IdentityFile /etc/ssh/user' 'BatchMode yes' 'LogLevel ERROR' >/etc/ssh/ssh_config
	cat >/etc/ssh/sshd_config <<-CONF
		HostKey $key
		AuthorizedKeysFile /etc/ssh/user.pub
		PidFile none
		StrictModes no
		PermitRootLogin prohibit-password
		UsePAM no
	CONF
}

# configure_slurm needs no munge, cgroups or accounting, and so no further daemon.
configure_slurm() {
	local k
	mkdir "$state/slurm"
	for ((k = 0; k < n; k++)); do mkdir "$state/slurm/h$k"; done
	mount -t tmpfs slurm /etc/slurm
	cat >/etc/slurm/slurm.conf <<-CONF
		ClusterName=cluster
		SlurmctldHost=h0
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/none
		CredType=cred/none
		TmpFS=$state/slurm/%n
		StateSaveLocation=$state/slurm
		SlurmdSpoolDir=$state/slurm/%n
		SlurmctldPidFile=$state/slurm/slurmctld.pid
		SlurmdPidFile=$state/slurm/slurmd.%n.pid
		SlurmctldLogFile=$state/slurm/slurmctld.log
		SlurmdLogFile=$state/slurm/slurmd.%n.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		AccountingStorageType=accounting_storage/none
		MpiDefault=none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SchedulerType=sched/builtin
		SlurmdParameters=config_overrides
		ReturnToService=2
		SlurmdTimeout=10
		KillWait=2
		UnkillableStepTimeout=10
		NodeName=h[0-$((n - 1))] CPUs=2 State=UNKNOWN
		PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	CONF
	# Slurm 22.05 looks for cgroups even if nothing uses them, unless it is told which version.
	echo 'CgroupPlugin=cgroup/v1' >/etc/slurm/cgroup.conf
	# For PMIx it opens libpmix.so, a link that is in Debian's libpmix-dev only.
	local library
	for library in /usr/lib/*/pmix2/lib; do
		[ -e "$library/libpmix.so.2" ] || continue
		mkdir "$state/pmix"
		cp -a "$library/." "$state/pmix"
		ln -sf libpmix.so.2 "$state/pmix/libpmix.so"
		mount --bind "$state/pmix" "$library"
	done
}

idle() { [ "$(on h0 sinfo --noheader --Node --format %T 2>/dev/null | sort -u)" = idle ]; }

ip link add switch type bridge forward_delay 0
ip link set switch up
echo '127.0.0.1 localhost' >"$state/hosts"
for ((k = 0; k < n; k++)); do echo "10.78.0.$((k + 1)) h$k" >>"$state/hosts"; done
# Hosts see the mounts that are there when they start.
[ -z "$ssh" ] || configure_ssh
[ -z "$slurm" ] || configure_slurm
for ((k = 0; k < n; k++)); do start_host "$k"; done
if [ -n "$ssh" ]; then
	for ((k = 0; k < n; k++)); do start_node "h$k" /usr/sbin/sshd; done
fi
if [ -n "$slurm" ]; then
	start_node h0 slurmctld
	for ((k = 0; k < n; k++)); do start_node "h$k" slurmd; done
	until_true idle || fail "the nodes of Slurm do not become idle: $(tail -n 5 "$state"/slurm/*.log)"
fi
if [ $# -gt 0 ]; then
	status=0
	on h0 "$@" || status=$?
	exit $status
fi
for ((k = 0; k < n; k++)); do echo "h$k ${pids[k]}"; done
exec >/dev/null
cat # until standard input ends
