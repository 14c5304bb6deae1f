//go:build !race

package shm

// A plain MOV is a release store on amd64. The store of sync/atomic is an XCHG,
// which waits until all earlier stores have reached the cache and then requests the
// line again. If a polling consumer takes the line in between, the message costs a
// second transfer.
//
// So these are plain stores, which the compiler puts in line. It keeps stores in the order of the
// program and loads on their side of a store: each depends on the state of memory that the one
// before has left (cmd/compile/internal/ssa, "memory" in README.md and schedule.go). The processor
// keeps the order of stores, too (TSO).

// StoreRelease32 stores v. A thread that loads v also sees everything that this
// thread wrote before. It orders nothing that follows.
func StoreRelease32(p *uint32, v uint32) { *p = v }

// StoreRelease64 is StoreRelease32 for 64 bits.
func StoreRelease64(p *uint64, v uint64) { *p = v }
