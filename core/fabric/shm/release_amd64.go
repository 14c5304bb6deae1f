//go:build !race

package shm

// A plain MOV is a release store on amd64. The store of sync/atomic is an XCHG,
// which waits until all earlier stores have reached the cache and then requests the
// line again. If a polling consumer takes the line in between, the message costs a
// second transfer.

// StoreRelease32 stores v. A thread that loads v also sees everything that this
// thread wrote before. It orders nothing that follows.
//
//go:noescape
func StoreRelease32(p *uint32, v uint32)

// StoreRelease64 is StoreRelease32 for 64 bits.
//
//go:noescape
func StoreRelease64(p *uint64, v uint64)
