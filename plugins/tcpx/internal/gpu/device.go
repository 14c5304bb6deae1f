package gpu

import "transportbench/plugins/tcpx/internal/cuda"

// Device is the part of [*cuda.Context] that an unpacker uses. All calls come from the thread
// that opened the device.
type Device interface {
	Description() cuda.Description
	NewStream() (cuda.Stream, error)
	DestroyStream(s cuda.Stream) error
	Synchronize(s cuda.Stream) error
	NewEvent() (cuda.Event, error)
	DestroyEvent(e cuda.Event) error
	Record(e cuda.Event, s cuda.Stream) error
	Query(e cuda.Event) (bool, error)
	Register(memory []byte) (cuda.Address, error)
	Unregister(memory []byte) error
	HostAlloc(size int) ([]byte, cuda.Address, error)
	HostFree(memory []byte) error
	AllocRing(size int) (cuda.Address, int, error)
	FreeRing(a cuda.Address, size int) error
	Alloc(size int) (cuda.Address, error)
	Free(a cuda.Address) error
	Export(a cuda.Address, size int) (descriptor int, err error)
	CopyIn(s cuda.Stream, to cuda.Address, from []byte) error
	CopyOut(s cuda.Stream, to []byte, from cuda.Address) error
	Launch(s cuda.Stream, descriptors cuda.Address, count int,
		source, destination cuda.Address) error
	Close() error
}

var _ Device = (*cuda.Context)(nil)
