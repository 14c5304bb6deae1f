package tcpx

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"
)

// pool is bounce memory in pages with a free list. The list is a stack, so that
// the pages that are warm in the caches are used first.
type pool struct {
	bytes []byte
	free  []uint32 // page numbers; the last is taken first
	// unclaimed is how many free pages are not set aside for a request that has begun.
	unclaimed int
	unit      int // pages of a full request
	spare     int // units that only connections without a request may take
	list      vectors
}

var (
	_ intake = (*pool)(nil)
	_ placer = (*pool)(nil)
)

// newPool makes bounce memory for a worker with so many connections: a ring's worth
// of requests, and one more for each connection.
func newPool(request, peers int) (*pool, error) {
	unit := request / pageSize
	pages := (requests + peers) * unit
	bytes, err := unix.Mmap(-1, 0, pages*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("bounce memory of %d bytes: mmap: %w", pages*pageSize, err)
	}
	p := &pool{bytes: bytes, free: make([]uint32, pages), unclaimed: pages, unit: unit, spare: peers}
	// The pages that a network card fills come in no order. Neither do these, from
	// the first on, so that what depends on the order cannot work by chance.
	for i, page := range rand.New(rand.NewPCG(uint64(pages), 1)).Perm(pages) {
		p.free[i] = uint32(page)
	}
	return p, nil
}

func (p *pool) memory() []byte { return p.bytes }

func (p *pool) close() error {
	if p.bytes == nil {
		return nil
	}
	bytes := p.bytes
	p.bytes = nil
	if err := unix.Munmap(bytes); err != nil {
		return errors.Join(errors.New("bounce memory"), err)
	}
	return nil
}
