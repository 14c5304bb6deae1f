//go:build amd64 || arm64

package shm

// PrefetchWrite requests ownership of a cache line that will be written soon. A
// store to a line that this core has only read waits until the other copies are
// invalidated; requesting the line early overlaps that wait with other work. It is
// a hint and does nothing on a processor without the instruction.
//
//go:noescape
func PrefetchWrite(p *uint32)

// Prefetch requests the cache lines of b, which will be read soon, all at once. Reading them one
// after the other would wait for each. It is a hint, too.
//
//go:noescape
func Prefetch(b []byte)
