package rank

import (
	"context"
	"fmt"
	"runtime"

	"transportbench/core/base/machine"
)

// poller is one polling thread. It runs what it is given on one locked OS
// thread, in the order given, and ends with close.
type poller struct {
	cpu  int // -1 for anywhere
	work chan func()
	done chan struct{}
}

func startPoller(cpu int) *poller {
	p := &poller{cpu: cpu, work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		// Never unlocked: the thread ends with the goroutine, and its affinity
		// with it.
		runtime.LockOSThread()
		for f := range p.work {
			f()
		}
	}()
	return p
}

// do runs f on the thread and returns its error. When ctx ends first, f goes on
// and do returns.
func (p *poller) do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	select {
	case p.work <- func() { result <- f() }:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pin binds the thread to its processor and reads its affinity back. It comes
// after the transport has made the worker, so that threads which a native
// library starts do not inherit the one processor.
func (p *poller) pin() (affinity string, err error) {
	if p.cpu >= 0 {
		if err := machine.Pin(p.cpu); err != nil {
			return "", fmt.Errorf("pinning a polling thread to processor %d: %w; try --pin=false", p.cpu, err)
		}
	}
	return machine.Affinity()
}

func (p *poller) close() {
	close(p.work)
	<-p.done
}
