package endpoint

import (
	"sync/atomic"
	"time"
)

// Registrations counts memory that was registered with a device or a library. Embedded in a
// transport it implements [transport.RegistrationReader]. The zero value is ready for use, and any
// goroutine may call its methods.
type Registrations struct{ bytes, ns atomic.Uint64 }

// AddRegistered counts size bytes whose registration took that long.
func (r *Registrations) AddRegistered(size uint64, took time.Duration) {
	r.bytes.Add(size)
	r.ns.Add(uint64(max(took, 0)))
}

// Registered returns how many bytes were registered, and the time that it took.
func (r *Registrations) Registered() (bytes uint64, took time.Duration) {
	return r.bytes.Load(), time.Duration(r.ns.Load())
}
