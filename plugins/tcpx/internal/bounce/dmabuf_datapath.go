package bounce

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/devmem"
)

// Reserve implements [Allocator]. It counts bytes as [Pages] does; the dmabuf has headroom
// times as many, because the kernel chooses where they go.
func (d *Dmabuf) Reserve(pages int, held bool) bool { return d.reserve(pages, held) }

// Receive implements [Allocator]. Each piece in the dmabuf is a fragment and never grows;
// other bytes go to linear pages.
func (d *Dmabuf) Receive(fd, want int, _ Fragment, more []Fragment) (grown uint32, count int,
	err error) {
	if d.failed != nil {
		return 0, 0, transport.Unavailable("mode devmem: %w", d.failed)
	}
	// A linear piece may end within a page, so there may be a fragment for each piece and
	// one for each page.
	buffers := min((want+PageSize-1)/PageSize, len(d.pages), len(d.buffers), len(more)/2)
	pieces := min(len(more)-buffers, len(d.free), len(d.pieces))
	if buffers == 0 || pieces == 0 {
		return 0, 0, d.starve(len(more))
	}
	for i := range buffers {
		page := d.linear(d.pages[len(d.pages)-1-i])
		d.buffers[i] = d.Memory()[page : page+min(PageSize, want-i*PageSize)]
	}
	n, control, err := d.receiver.Receive(fd, d.buffers[:buffers], pieces)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case n == 0:
		return 0, 0, sock.ErrClosed
	}
	count, err = d.accept(fd, n, control, more)
	return 0, count, err
}

// starvedReceives is the least number of receives without room in a row that is an error:
// a thread that has not polled for long must get to give room back first.
const starvedReceives = 1000

// starve counts a receive that found no room. fragments is how many the request still has room
// for. It returns an error if nothing was given back for the configured patience: the requests that
// hold all the room wait for more.
func (d *Dmabuf) starve(fragments int) error {
	now := clock.Now()
	if d.starved == 0 {
		d.since = now
	}
	d.starved++
	switch {
	case d.starved < starvedReceives || time.Duration(now-d.since) < d.patience:
		return nil
	case fragments < 2:
		return d.starving.fragments
	case len(d.pages) == 0:
		return d.starving.pages
	}
	return d.starving.tokens
}

// linear returns the offset of a linear page in bounce memory.
func (d *Dmabuf) linear(page uint32) int { return d.size + int(page)*PageSize }

// accept makes fragments of what one receive returned.
func (d *Dmabuf) accept(fd, n int, control []byte, more []Fragment) (count int, err error) {
	reported, err := devmem.Control(control, d.binding.ID, uint64(d.size), d.pieces)
	if err != nil {
		return 0, transport.Unavailable("mode devmem: %w", err)
	}
	if reported == 0 { // ordinary bytes: the flow is steered to another queue
		d.pieces[0] = devmem.Piece{Size: uint32(n), Linear: true}
		reported = 1
	}
	d.counts.calls++
	d.starved = 0
	used, left := 0, n // bytes of the linear pages, bytes not reported
	before := d.counts.pieces
	for _, p := range d.pieces[:reported] {
		if left -= int(p.Size); left < 0 {
			return count, transport.Unavailable("mode devmem: %w", devmem.ErrControl)
		}
		if p.Linear {
			count = d.acceptLinear(used, int(p.Size), more, count)
			used += int(p.Size)
			continue
		}
		more[count] = Fragment{Source: uint32(p.Offset), Length: p.Size, Token: d.hold(fd, p.Token)}
		count++
		d.counts.pieces++
		d.counts.dmabufBytes += uint64(p.Size)
	}
	d.pages = d.pages[:len(d.pages)-(used+PageSize-1)/PageSize]
	if left != 0 {
		return count, transport.Unavailable("mode devmem: %w", devmem.ErrControl)
	}
	if d.sync && d.counts.pieces > before {
		err = d.binding.Sync()
	}
	return count, err
}

// acceptLinear makes fragments of size bytes that follow used bytes of linear pages.
func (d *Dmabuf) acceptLinear(used, size int, more []Fragment, count int) int {
	d.counts.linearBytes += uint64(size)
	for size > 0 {
		page := d.pages[len(d.pages)-1-used/PageSize]
		length := min(PageSize-used%PageSize, size)
		more[count] = Fragment{Source: uint32(d.linear(page) + used%PageSize),
			Length: uint32(length), Token: noToken}
		d.users[page]++
		count, used, size = count+1, used+length, size-length
	}
	return count
}

// hold keeps a token until its fragment is given back, and returns its entry. The first
// token of a socket makes the socket's batch.
func (d *Dmabuf) hold(fd int, token uint32) uint32 {
	if fd >= len(d.sockets) {
		d.sockets = append(d.sockets, make([]*dmabufSocket, fd+1-len(d.sockets))...)
		d.touched = make([]*dmabufSocket, 0, len(d.sockets))
	}
	if d.sockets[fd] == nil {
		d.sockets[fd] = &dmabufSocket{tokens: devmem.NewTokens(fd, d.dontNeed)}
	}
	i := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	d.held[i] = heldToken{socket: d.sockets[fd], token: token}
	return i
}

// Give implements [Allocator].
func (d *Dmabuf) Give(fragments []Fragment, reserved int) {
	d.starved = 0
	d.unreserved += reserved
	for _, f := range fragments {
		if f.Token == noToken {
			page := uint32(int(f.Source)-d.size) / PageSize
			if d.users[page]--; d.users[page] == 0 {
				d.pages = append(d.pages, page)
			}
			continue
		}
		h := &d.held[f.Token]
		if s := h.socket; s != nil {
			d.fail(s.tokens.Add(h.token))
			if !s.touched {
				s.touched = true
				d.touched = append(d.touched, s)
			}
		}
		h.socket = nil
		d.free = append(d.free, f.Token)
	}
	for _, s := range d.touched {
		d.fail(s.tokens.Flush())
		s.touched = false
	}
	d.touched = d.touched[:0]
}

func (d *Dmabuf) fail(err error) {
	if d.failed == nil {
		d.failed = err
	}
}
