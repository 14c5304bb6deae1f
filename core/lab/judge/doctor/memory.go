package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

func (x *examiner) hugePages() Finding {
	f := Finding{Name: "huge-pages", Status: OK,
		Meaning: "Transports that ask for huge pages get them, which saves TLB misses with large " +
			"values."}
	info := map[string]string{}
	for line := range strings.Lines(x.root.Text("proc/meminfo")) {
		name, value, _ := strings.Cut(line, ":")
		info[name] = strings.TrimSpace(value)
	}
	total, free := info["HugePages_Total"], info["HugePages_Free"]
	switch {
	case total == "":
		return f.unknown("It is unknown whether huge pages are reserved.")
	case free == "0":
		f.Value = total + " reserved, none free"
		return f.as(Note, "Transports that ask for huge pages do not get them; large values cost "+
			"more TLB misses.",
			"sysctl vm.nr_hugepages=512")
	}
	f.Value = fmt.Sprintf("%s of %s free, %s each", free, total, info["Hugepagesize"])
	return f
}

func (x *examiner) transparentHugePages() Finding {
	v := x.environment.Volatile
	f := Finding{Name: "transparent-huge-pages", Value: v.HugePages, Status: OK,
		Meaning: "The kernel does not replace pages in use by huge pages on its own."}
	if v.HugePages == "" {
		return f.unknown("It is unknown whether the kernel replaces pages in use by huge pages.")
	}
	if v.SharedHugePages != "" {
		f.Value += ", shared memory " + v.SharedHugePages
	}
	if v.HugePages == "always" {
		return f.as(Note, "The kernel may replace pages by huge pages during a window, which "+
			"causes rare long stalls.",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	}
	return f
}

// capIPCLock is the bit of CAP_IPC_LOCK, which lifts the limit on locked memory.
const capIPCLock = 14

func (x *examiner) lockedMemory() Finding {
	f := Finding{Name: "locked-memory", Status: OK,
		Meaning: "RDMA transports can register as much memory as they need."}
	soft := ""
	for line := range strings.Lines(x.root.Text("proc/self/limits")) {
		if rest, found := strings.CutPrefix(line, "Max locked memory"); found {
			soft, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
		}
	}
	limit, err := strconv.ParseUint(soft, 10, 64)
	switch {
	case soft == "unlimited":
		f.Value = soft
		return f
	case err != nil:
		return f.unknown("It is unknown whether RDMA transports can register memory.")
	}
	f.Value = formatBytes(limit)
	if x.hasCapability(capIPCLock) {
		f.Value += ", lifted by CAP_IPC_LOCK"
		return f
	}
	const wanted = 256 << 20
	if limit >= wanted {
		return f
	}
	status := Note
	if len(x.environment.Identity.RDMA) > 0 {
		status = Bad
	}
	return f.as(status,
		"RDMA transports lock the memory that the device accesses, and fail at this limit.",
		"ulimit -l unlimited (limits.conf: memlock; docker run --ulimit memlock=-1)")
}

func (x *examiner) hasCapability(bit uint) bool {
	for line := range strings.Lines(x.root.Text("proc/self/status")) {
		if mask, found := strings.CutPrefix(line, "CapEff:"); found {
			effective, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && effective>>bit&1 == 1
		}
	}
	return false
}

func (x *examiner) devShm() Finding {
	f := Finding{Name: "dev-shm", Status: OK,
		Meaning: "There is room for named shared memory, which UCX and processes of other " +
			"users need."}
	size, free, err := x.filesystem(x.root.Path("dev/shm"))
	if err != nil {
		f.Value = "missing"
		return f.as(Warn, "Transports that need named shared memory cannot run: "+err.Error()+".",
			"mount -t tmpfs tmpfs /dev/shm")
	}
	f.Value = fmt.Sprintf("%s free of %s", formatBytes(free), formatBytes(size))
	const wanted = 256 << 20
	if free < wanted {
		return f.as(Warn, "Rings for many peers or large values do not fit; SIGBUS kills a "+
			"process that touches a page beyond the limit.",
			"mount -o remount,size=2G /dev/shm (docker run --shm-size=2g), and remove stale "+
				"files there")
	}
	return f
}

// formatBytes formats n in the largest suitable unit, rounded down.
func formatBytes(n uint64) string {
	for _, unit := range []struct {
		shift uint
		name  string
	}{{30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n>>unit.shift >= 10 || n>>unit.shift > 0 && n&(1<<unit.shift-1) == 0 {
			return fmt.Sprintf("%d %s", n>>unit.shift, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
