//go:build !race

package shm

// A plain MOV is a release store on amd64. sync/atomic has none: its store is
// an XCHG, which waits until everything before it has reached the cache and
// then asks for the line anew. A consumer that polls the line takes it in
// between, and the message costs a second transfer.

// StoreRelease32 stores v so that everything before it in this thread is seen by
// whoever sees v. It orders nothing that follows.
//
//go:noescape
func StoreRelease32(p *uint32, v uint32)

// StoreRelease64 is StoreRelease32 for 64 bits.
//
//go:noescape
func StoreRelease64(p *uint64, v uint64)
