package devmem

import (
	"errors"
	"fmt"
)

// Limits of SO_DEVMEM_DONTNEED, from net/core/sock.c (MAX_DONTNEED_TOKENS and
// MAX_DONTNEED_FRAGS).
const (
	maxRanges = 128
	maxFrags  = 1024
)

// tokenRange is struct dmabuf_token: count tokens from start on.
type tokenRange struct{ start, count uint32 }

// ErrTokens: the kernel does not know tokens that it gave out, so that their memory is
// lost until the socket is closed.
var ErrTokens = errors.New("the kernel took back fewer pieces than it was given")

// Tokens collects the tokens of one socket's pieces and gives them back in batches, since
// a call costs more than a token. Tokens that follow each other take one place. Its
// methods do not allocate; they belong to one thread.
type Tokens struct {
	socket int
	batch  [maxRanges]tokenRange
	ranges int
	frags  int

	// dontNeed is the system call, except in tests. It returns how many were taken
	// back.
	dontNeed func(socket int, ranges []tokenRange) (int, error)
}

// NewTokens makes the batch of a socket, which stays the caller's.
func NewTokens(socket int) *Tokens { return &Tokens{socket: socket, dontNeed: dontNeed} }

// Add gives back a token, at the latest with the next Flush. The error is Flush's.
func (t *Tokens) Add(token uint32) error {
	if last := t.ranges - 1; last >= 0 && t.batch[last].start+t.batch[last].count == token && token != 0 {
		t.batch[last].count++
	} else {
		if t.ranges == maxRanges {
			if err := t.Flush(); err != nil {
				return err
			}
		}
		t.batch[t.ranges] = tokenRange{start: token, count: 1}
		t.ranges++
	}
	if t.frags++; t.frags == maxFrags {
		return t.Flush()
	}
	return nil
}

// Flush gives back everything that was added. The kernel takes a batch in order and may
// stop early; the rest is given again. Where it does not take anything of what is left,
// that is given up with [ErrTokens].
func (t *Tokens) Flush() error {
	for t.frags > 0 {
		taken, err := t.dontNeed(t.socket, t.batch[:t.ranges])
		if err == nil && (taken <= 0 || taken > t.frags) {
			err = fmt.Errorf("%w: %d of %d", ErrTokens, taken, t.frags)
		}
		if err != nil {
			t.ranges, t.frags = 0, 0
			return err
		}
		t.drop(taken)
	}
	return nil
}

// drop removes the first n tokens of the batch.
func (t *Tokens) drop(n int) {
	t.frags -= n
	left := 0
	for _, r := range t.batch[:t.ranges] {
		if gone := min(n, int(r.count)); gone > 0 {
			n -= gone
			r.start += uint32(gone)
			r.count -= uint32(gone)
		}
		if r.count > 0 {
			t.batch[left] = r
			left++
		}
	}
	t.ranges = left
}
