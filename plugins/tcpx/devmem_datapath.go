package tcpx

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/devmem"
)

// reserve implements [intake], as the host's pool does. What is set aside is bytes of the
// dmabuf, of which there are headroom times as many: the kernel says which.
func (d *devmemIntake) reserve(pages int, held bool) bool {
	left := d.unclaimed - pages
	if held && left < d.spare*d.unit || left < 0 {
		return false
	}
	d.unclaimed = left
	return true
}

// receive implements [intake]. What arrives in the dmabuf is a fragment for each piece,
// and never grows; what does not goes to linear pages.
func (d *devmemIntake) receive(fd, want int, _ fragment, more []fragment) (grown uint32, count int, err error) {
	if d.failed != nil {
		return 0, 0, transport.Unavailable("mode devmem: %w", d.failed)
	}
	// A linear piece may end in the middle of a page, so that there may be a fragment
	// for each piece and one for each page.
	buffers := min((want+pageSize-1)/pageSize, len(d.pages), len(d.buffers), len(more)/2)
	pieces := min(len(more)-buffers, len(d.free), len(d.pieces))
	if buffers == 0 || pieces == 0 {
		return 0, 0, d.starve(len(more))
	}
	for i := range buffers {
		page := d.linear(d.pages[len(d.pages)-1-i])
		d.buffers[i] = d.memory()[page : page+min(pageSize, want-i*pageSize)]
	}
	n, control, err := d.receiver.Receive(fd, d.buffers[:buffers], pieces)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case n == 0:
		return 0, 0, errSocketClosed
	}
	count, err = d.accept(fd, n, control, more)
	return 0, count, err
}

// starvedReceives is how many receives without room there are, at the least, before that
// is an error: a thread that has not polled for long comes to give room back first.
const starvedReceives = 1000

// starve is told of a receive that had no room, with so many fragments left to its
// request. It is an error when nothing was given back for long: what holds all the room
// then is waiting for more.
func (d *devmemIntake) starve(fragments int) error {
	now := clock()
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

// linear is where a linear page is in bounce memory.
func (d *devmemIntake) linear(page uint32) int { return d.size + int(page)*pageSize }

// accept makes fragments of what one receive has brought.
func (d *devmemIntake) accept(fd, n int, control []byte, more []fragment) (count int, err error) {
	told, err := devmem.Control(control, d.binding.ID, uint64(d.size), d.pieces)
	if err != nil {
		return 0, transport.Unavailable("mode devmem: %w", err)
	}
	if told == 0 { // ordinary bytes: the flow is steered to another queue
		d.pieces[0] = devmem.Piece{Size: uint32(n), Linear: true}
		told = 1
	}
	d.counts.calls++
	d.starved = 0
	used, left := 0, n // bytes of the linear pages, bytes not told of
	before := d.counts.pieces
	for _, p := range d.pieces[:told] {
		if left -= int(p.Size); left < 0 {
			return count, transport.Unavailable("mode devmem: %w", devmem.ErrControl)
		}
		if p.Linear {
			count = d.acceptLinear(used, int(p.Size), more, count)
			used += int(p.Size)
			continue
		}
		more[count] = fragment{source: uint32(p.Offset), length: p.Size, token: d.hold(fd, p.Token)}
		count++
		d.counts.pieces++
		d.counts.dmabufBytes += uint64(p.Size)
	}
	d.pages = d.pages[:len(d.pages)-(used+pageSize-1)/pageSize]
	if left != 0 {
		return count, transport.Unavailable("mode devmem: %w", devmem.ErrControl)
	}
	if d.sync && d.counts.pieces > before {
		err = d.binding.Sync()
	}
	return count, err
}

// acceptLinear makes fragments of size bytes that are behind used bytes of linear pages.
func (d *devmemIntake) acceptLinear(used, size int, more []fragment, count int) int {
	d.counts.linearBytes += uint64(size)
	for size > 0 {
		page := d.pages[len(d.pages)-1-used/pageSize]
		length := min(pageSize-used%pageSize, size)
		more[count] = fragment{source: uint32(d.linear(page) + used%pageSize), length: uint32(length), token: noToken}
		d.users[page]++
		count, used, size = count+1, used+length, size-length
	}
	return count
}

// hold keeps a token until the fragment is given back. The first of a socket makes the
// socket's batch.
func (d *devmemIntake) hold(fd int, token uint32) uint32 {
	if fd >= len(d.sockets) {
		d.sockets = append(d.sockets, make([]*devmemSocket, fd+1-len(d.sockets))...)
		d.touched = make([]*devmemSocket, 0, len(d.sockets))
	}
	if d.sockets[fd] == nil {
		d.sockets[fd] = &devmemSocket{tokens: devmem.NewTokens(fd, d.dontNeed)}
	}
	i := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	d.held[i] = heldToken{socket: d.sockets[fd], token: token}
	return i
}

// give implements [intake].
func (d *devmemIntake) give(fragments []fragment, reserved int) {
	d.starved = 0
	d.unclaimed += reserved
	for _, f := range fragments {
		if f.token == noToken {
			page := uint32(int(f.source)-d.size) / pageSize
			if d.users[page]--; d.users[page] == 0 {
				d.pages = append(d.pages, page)
			}
			continue
		}
		h := &d.held[f.token]
		if s := h.socket; s != nil {
			d.fail(s.tokens.Add(h.token))
			if !s.touched {
				s.touched = true
				d.touched = append(d.touched, s)
			}
		}
		h.socket = nil
		d.free = append(d.free, f.token)
	}
	for _, s := range d.touched {
		d.fail(s.tokens.Flush())
		s.touched = false
	}
	d.touched = d.touched[:0]
}

func (d *devmemIntake) fail(err error) {
	if d.failed == nil {
		d.failed = err
	}
}
