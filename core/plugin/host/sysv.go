package host

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// removeSysV removes the System V shared memory that process pid made since began and that no
// process uses. The process has ended, but is not reaped, so its number is its own. UCX marks its
// segments for removal when it has mapped them; a process that is killed in between leaves one.
func removeSysV(pid int, began time.Time) {
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		return // the kernel has no System V memory
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := abandoned(line, pid, began); ok {
			_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
	}
}

// abandoned returns the number of the segment in a line of /proc/sysvipc/shm if process pid made it
// and nobody uses it. An older segment belongs to another process that had the same number.
func abandoned(line string, pid int, began time.Time) (int, bool) {
	var key, id, size, creator, last, attached, uid, gid, ownerUID, ownerGID int
	var perms string
	var attach, detach, change int64
	n, _ := fmt.Sscan(line, &key, &id, &perms, &size, &creator, &last, &attached, &uid, &gid,
		&ownerUID, &ownerGID, &attach, &detach, &change)
	return id, n == 14 && creator == pid && attached == 0 && change >= began.Unix()
}
