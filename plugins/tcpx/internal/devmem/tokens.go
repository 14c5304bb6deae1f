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

// TokenRange is struct dmabuf_token: Count tokens, beginning with Start.
type TokenRange struct{ Start, Count uint32 }

// ErrTokens means that the kernel did not accept a token. Its memory stays unusable until the
// socket is closed.
var ErrTokens = errors.New("the kernel took back fewer pieces than it was given")

// Tokens returns the tokens of one socket to the kernel in batches, because a call costs more
// than a token. Consecutive tokens form a range. The methods do not allocate and belong to
// one thread.
type Tokens struct {
	socket int
	batch  [maxRanges]TokenRange
	ranges int
	frags  int

	dontNeed func(socket int, ranges []TokenRange) (int, error)
}

// NewTokens returns the batch of a socket, which the caller owns. dontNeed is [DontNeed],
// except in tests.
func NewTokens(socket int, dontNeed func(socket int, ranges []TokenRange) (int, error)) *Tokens {
	return &Tokens{socket: socket, dontNeed: dontNeed}
}

// Add returns a token, at the latest with the next Flush. The error is Flush's.
func (t *Tokens) Add(token uint32) error {
	if last := t.ranges - 1; last >= 0 && t.batch[last].Start+t.batch[last].Count == token &&
		token != 0 {
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

// Flush returns all added tokens. The kernel takes a batch in order and may stop early; then
// Flush offers the rest again. If the kernel takes nothing, Flush drops the rest and returns
// [ErrTokens].
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
