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

// TokenRange is struct dmabuf_token: Count tokens from Start on.
type TokenRange struct{ Start, Count uint32 }

// ErrTokens says that the kernel does not know tokens that it gave out, so that their
// memory is lost until the socket is closed.
var ErrTokens = errors.New("the kernel took back fewer pieces than it was given")

// Tokens collects the tokens of one socket's pieces and gives them back in batches, since
// a call costs more than a token. Tokens that follow each other take one place. Its
// methods do not allocate; they belong to one thread.
type Tokens struct {
	socket int
	batch  [maxRanges]TokenRange
	ranges int
	frags  int

	dontNeed func(socket int, ranges []TokenRange) (int, error)
}

// NewTokens makes the batch of a socket, which stays the caller's. dontNeed is [DontNeed],
// except in tests.
func NewTokens(socket int, dontNeed func(socket int, ranges []TokenRange) (int, error)) *Tokens {
	return &Tokens{socket: socket, dontNeed: dontNeed}
}

// Add gives back a token, at the latest with the next Flush. The error is Flush's.
func (t *Tokens) Add(token uint32) error {
	if last := t.ranges - 1; last >= 0 && t.batch[last].Start+t.batch[last].Count == token && token != 0 {
		t.batch[last].Count++
	} else {
		if t.ranges == maxRanges {
			if err := t.Flush(); err != nil {
				return err
			}
		}
		t.batch[t.ranges] = TokenRange{Start: token, Count: 1}
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
		if gone := min(n, int(r.Count)); gone > 0 {
			n -= gone
			r.Start += uint32(gone)
			r.Count -= uint32(gone)
		}
		if r.Count > 0 {
			t.batch[left] = r
			left++
		}
	}
	t.ranges = left
}
