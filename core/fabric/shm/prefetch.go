//go:build amd64 || arm64

package shm

// PrefetchWrite asks for the ownership of a cache line that will be written
// soon. A line that was only read is shared, and the store to it would wait for
// the other copy to be invalidated; asked for early, that overlaps with the
// work in between. It is a hint: where the processor lacks it, nothing happens.
//
//go:noescape
func PrefetchWrite(p *uint32)
