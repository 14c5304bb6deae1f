package rdma

import (
	"io"
	"sync"

	"transportbench/core/fabric/endpoint"
)

// children holds the open objects of a device, which the device's Close closes.
type children struct {
	mu      sync.Mutex
	closed  bool // the device is
	objects map[io.Closer]int

	endpoint.Registrations
}

func newChildren() children { return children{objects: map[io.Closer]int{}} }

// The order in which a device closes its objects.
const (
	closeQueuePairs = iota // and notifiers
	closeQueues
	closeMemory
	closeOrders
)

// adopt adds an object. It returns ErrClosed if the device is closed.
func (c *children) adopt(o io.Closer, order int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.objects[o] = order
	return nil
}

// disown removes an object that is closed.
func (c *children) disown(o io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, o)
}

func (c *children) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// closeAll closes all objects, once; first is false for later calls.
func (c *children) closeAll() (errs []error, first bool) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, false
	}
	c.closed = true
	var objects [closeOrders][]io.Closer
	for o, order := range c.objects {
		objects[order] = append(objects[order], o)
	}
	c.mu.Unlock()
	for _, list := range objects {
		for _, o := range list {
			errs = append(errs, o.Close())
		}
	}
	return errs, true
}
