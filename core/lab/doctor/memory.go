package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

func (x *examiner) hugePages() Finding {
	f := Finding{Name: "huge-pages", Status: OK, Meaning: "Transports that ask for huge pages get them, and save TLB misses with large values."}
	total, free, size := "", "", ""
	for line := range strings.Lines(x.root.Text("proc/meminfo")) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "HugePages_Total":
			total = value
		case "HugePages_Free":
			free = value
		case "Hugepagesize":
			size = value
		}
	}
	switch {
	case total == "":
		return unknown(f, "Whether huge pages are reserved is not known.")
	case free == "0":
		f.Value, f.Status = total+" reserved, none free", Note
		f.Meaning = "Transports that ask for huge pages do not get them; large values cost more TLB misses."
		f.Remedy = "sysctl vm.nr_hugepages=512"
	default:
		f.Value = fmt.Sprintf("%s of %s free, %s each", free, total, size)
	}
	return f
}

func (x *examiner) transparentHugePages() Finding {
	v := x.environment.Volatile
	f := Finding{Name: "transparent-huge-pages", Status: OK,
		Meaning: "The kernel does not exchange pages of memory in use for huge ones by itself."}
	if v.HugePages == "" {
		return unknown(f, "Whether the kernel exchanges pages for huge ones is not known.")
	}
	f.Value = v.HugePages
	if v.SharedHugePages != "" {
		f.Value += ", shared memory " + v.SharedHugePages
	}
	if v.HugePages == "always" {
		f.Status = Note
		f.Meaning = "The kernel may exchange pages for huge ones in the middle of a window, which shows as rare long stalls."
		f.Remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	}
	return f
}

// capIPCLock is the bit of CAP_IPC_LOCK, which lifts the limit.
const capIPCLock = 14

func (x *examiner) lockedMemory() Finding {
	f := Finding{Name: "locked-memory", Status: OK, Meaning: "RDMA transports can register as much memory as they need."}
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
		return unknown(f, "Whether RDMA transports can register memory is not known.")
	}
	f.Value = formatBytes(limit)
	if x.hasCapability(capIPCLock) {
		f.Value += ", lifted by CAP_IPC_LOCK"
		return f
	}
	const wanted = 256 << 20
	if limit < wanted {
		f.Status = Note
		f.Meaning = "RDMA transports lock the memory that the device reaches, and fail when the limit is used up."
		f.Remedy = "ulimit -l unlimited (limits.conf: memlock; docker run --ulimit memlock=-1)"
		if len(x.environment.Identity.RDMA) > 0 {
			f.Status = Bad
		}
	}
	return f
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
	f := Finding{Name: "dev-shm", Status: OK, Meaning: "Named shared memory, which UCX and other users' processes need, has room."}
	size, free, err := x.filesystem(x.root.Path("dev/shm"))
	if err != nil {
		f.Value, f.Status = "missing", Warn
		f.Meaning = "Transports that need named shared memory cannot run: " + err.Error() + "."
		f.Remedy = "mount -t tmpfs tmpfs /dev/shm"
		return f
	}
	f.Value = fmt.Sprintf("%s free of %s", formatBytes(free), formatBytes(size))
	const wanted = 256 << 20
	if free < wanted {
		f.Status = Warn
		f.Meaning = "Rings of many peers or of large values do not fit; a process that touches a page too many is killed by SIGBUS."
		f.Remedy = "mount -o remount,size=2G /dev/shm (docker run --shm-size=2g), and remove what is left in it"
	}
	return f
}

// formatBytes rounds down to a whole unit.
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
