package host

import (
	"time"

	"golang.org/x/sys/unix"
)

// fingerprint identifies a state of a file without reading it. The kernel sets the time of the
// status change and no program can set it back, so a file with the same fingerprint is unchanged,
// unless it changed again within a step of the kernel's clock.
type fingerprint struct {
	device, inode uint64
	size          int64
	changed       time.Time // of the status
}

// settleTime is far longer than a step of any kernel's clock for files.
const settleTime = time.Second

// fingerprintOf returns the fingerprint of a file, or a zero one if it cannot be trusted: the file
// changed a moment ago, or cannot be examined.
func fingerprintOf(path string, now time.Time) fingerprint {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return fingerprint{}
	}
	f := fingerprint{uint64(s.Dev), s.Ino, s.Size, time.Unix(s.Ctim.Unix())}
	if now.Sub(f.changed) < settleTime {
		return fingerprint{}
	}
	return f
}

// same reports whether both are known and of the same state.
func (f fingerprint) same(other fingerprint) bool { return f != fingerprint{} && f == other }
