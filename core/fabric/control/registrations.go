package control

import (
	"sync/atomic"
	"time"

	"transportbench/core/transport"
)

// Registrations counts memory that was registered with a device or a library. Embedded in a
// transport it implements [transport.StatsReader]. The zero value is ready for use, and any
// goroutine may call its methods.
type Registrations struct{ bytes, ns atomic.Uint64 }

// AddRegistered counts size bytes whose registration took that long.
func (r *Registrations) AddRegistered(size uint64, took time.Duration) {
	r.bytes.Add(size)
	r.ns.Add(uint64(max(took, 0)))
}

// ReadStats implements [transport.StatsReader].
func (r *Registrations) ReadStats(dst []transport.Stat) []transport.Stat {
	return append(dst,
		transport.Stat{Name: transport.StatRegisteredBytes, Value: r.bytes.Load(),
			Help: "bytes of memory that were registered with a device or a library"},
		transport.Stat{Name: transport.StatRegisterTime, Value: r.ns.Load(),
			Help: "the time that it took"})
}
