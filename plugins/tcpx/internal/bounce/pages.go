package bounce

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

// Pages is bounce memory in the host, in pages of 4 KiB with a free list. The list is a
// stack, so that pages that are warm in the caches are used first.
type Pages struct {
	budget
	bytes   []byte
	free    []uint32 // page numbers; the last is taken first
	vectors sock.Vectors
}

var (
	_ Allocator = (*Pages)(nil)
	_ PageTaker = (*Pages)(nil)
)

// NewPages makes the bounce memory of a worker. peers is the number of its connections, and request
// the bytes of the largest request.
func NewPages(request, peers int) (*Pages, error) {
	b := newBudget(request, peers)
	pages := b.unreserved
	bytes, err := unix.Mmap(-1, 0, pages*PageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("bounce memory of %d bytes: mmap: %w", pages*PageSize, err)
	}
	p := &Pages{budget: b, bytes: bytes, free: make([]uint32, pages)}
	// A NIC fills pages in no order. The list is shuffled, so that code that depends on
	// an order cannot work by chance.
	for i, page := range rand.New(rand.NewPCG(uint64(pages), 1)).Perm(pages) {
		p.free[i] = uint32(page)
	}
	return p, nil
}

// Memory implements [Allocator].
func (p *Pages) Memory() []byte { return p.bytes }

// Close implements [Allocator].
func (p *Pages) Close() error {
	if p.bytes == nil {
		return nil
	}
	bytes := p.bytes
	p.bytes = nil
	if err := unix.Munmap(bytes); err != nil {
		return fmt.Errorf("bounce memory: munmap: %w", err)
	}
	return nil
}
