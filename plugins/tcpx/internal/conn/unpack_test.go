package conn

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"transportbench/core/fabric/doublemap"
	"transportbench/core/fabric/pow2"
	"transportbench/plugins/tcpx/internal/bounce"

	"github.com/stretchr/testify/require"
)

// slowUnpacker delays the host's unpacker: it copies a request when it is asked about after
// some time, as if the copy took that long.
type slowUnpacker struct {
	bounce.Unpacker
	ripe func(slot int) bool // reports whether the time of a slot has come
	held [bounce.UnpackSlots]struct {
		fragments []bounce.Fragment
		to        bounce.Buffer
		launched  time.Time
		copied    bool
	}
}

func (u *slowUnpacker) Launch(slot int, fragments []bounce.Fragment, to bounce.Buffer) error {
	h := &u.held[slot]
	h.fragments, h.to, h.launched, h.copied = fragments, to, time.Now(), false
	return nil
}

func (u *slowUnpacker) Done(slot int) (bool, error) {
	h := &u.held[slot]
	if !h.copied {
		if !u.ripe(slot) {
			return false, nil
		}
		h.copied = true
		if err := u.Unpacker.Launch(slot, h.fragments, h.to); err != nil {
			return false, err
		}
	}
	return u.Unpacker.Done(slot)
}

// poisonedPages overwrites pages that are given back, so that an unpack that comes too late
// copies poison.
type poisonedPages struct{ *bounce.Pages }

func (p poisonedPages) Give(fragments []bounce.Fragment, reserved int) {
	for _, f := range fragments {
		page := p.Memory()[f.Source/pageSize*pageSize:][:pageSize]
		for i := range page {
			page[i] = 0xA5
		}
	}
	p.Pages.Give(fragments, reserved)
}

// slow makes a side unpack slowly and poison what it gives back.
func slow(e *Side, ripe func(slot int) bool) *slowUnpacker {
	u := &slowUnpacker{Unpacker: e.unpacker.Unpacker, ripe: ripe}
	e.unpacker.Unpacker = u
	e.In.memory = poisonedPages{e.memory.(*bounce.Pages)}
	return u
}

// transferOnce sends data from one thread to another, with unpacks that take delay, and
// compares.
func transferOnce(t *testing.T, options map[string]string, data []byte, delay time.Duration) {
	t.Helper()
	a, b, err := newTestSides(t, options, max(pow2.Ceil(len(data)), doublemap.Unit))
	require.NoError(t, err)
	defer func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		requireAllPages(t, b.memory, b.config.Request)
	}()
	u := slow(b, nil)
	u.ripe = func(slot int) bool { return time.Since(u.held[slot].launched) >= delay }
	request := a.config.Request
	var stopped atomic.Bool
	var sendErr error
	var both sync.WaitGroup
	both.Go(func() {
		left := data
		sendErr = a.SendAll(&stopped, 1000, func() (part []byte) {
			part, left = left[:min(len(left), request)], left[min(len(left), request):]
			return part
		})
		if sendErr != nil {
			stopped.Store(true)
		}
	})
	whole := b.Destination.Size / 2
	size, err := b.ReceiveAll(&stopped, 1000, func(number uint64) bounce.Buffer {
		at := min(int(number)*request, whole)
		return b.Destination.Slice(at, min(request, b.Destination.Size-at))
	})
	if err != nil {
		stopped.Store(true)
	}
	both.Wait()
	require.NoError(t, err)
	require.NoError(t, sendErr)
	require.Equal(t, len(data), size)
	require.True(t, bytes.Equal(data, b.Destination.Host[:len(data)]), "the bytes")
}

// TestConsumeIsGated: a request whose unpack takes 50 ms cannot be consumed before, and its pages
// are not reused; after that the bytes are right.
func TestConsumeIsGated(t *testing.T) {
	a, b := pair(t, nil, 16<<20)
	u := slow(b, nil)
	u.ripe = func(slot int) bool { return time.Since(u.held[slot].launched) >= 50*time.Millisecond }
	const each = 300_001
	data := random(1, Requests*each)
	for i := range uint64(Requests) {
		err := b.In.PostReceive(b.Destination.Slice(int(i)*each, each), i)
		require.NoError(t, err)
		err = a.Out.PostSend(data[int(i)*each:][:each], i)
		require.NoError(t, err)
	}
	refused := 0
	for i := range uint64(Requests) {
		eventually(t, "a request to be consumed", func() bool {
			require.NoError(t, a.Progress())
			require.NoError(t, b.Progress())
			if b.In.launched <= i {
				return false
			}
			if consumed(b) {
				return true
			}
			require.Positive(t, b.In.pages, "pages while a request is being unpacked")
			refused++
			return false
		})
		require.True(t, bytes.Equal(data[int(i)*each:][:each],
			b.Destination.Host[int(i)*each:][:each]), "request %d", i)
	}
	require.Positive(t, refused, "consumes that were refused")
	require.Positive(t, b.Counters.UnpackNS, "time that unpacking took")
	require.Zero(t, b.In.pages)
}

// TestUngatedWouldShow: TestConsumeIsGated can fail, because pages that are given back before the
// unpack yield poison.
func TestUngatedWouldShow(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	var late bool
	slow(b, func(int) bool { return late })
	data := random(2, 100_000)
	err := b.In.PostReceive(b.Destination.Slice(0, len(data)), 1)
	require.NoError(t, err)
	err = a.Out.PostSend(data, 1)
	require.NoError(t, err)
	eventually(t, "the unpack to be launched", func() bool {
		require.NoError(t, a.Progress())
		require.NoError(t, b.Progress())
		return b.In.launched == 1
	})
	r := b.In.requests.At(0)
	fragments := append([]bounce.Fragment(nil), r.fragments...)
	for _, f := range fragments {
		for i := range pageSize {
			b.memory.Memory()[int(f.Source/pageSize*pageSize)+i] = 0xA5
		}
	}
	late = true
	eventually(t, "the unpack", func() bool {
		require.NoError(t, b.In.collect())
		return r.slot < 0
	})
	require.False(t, bytes.Equal(data, b.Destination.Host[:len(data)]))
}

// TestWindowFills: with a receiver that unpacks slowly all 16 receives are in use, and with a
// window of one the same work takes more steps. Steps are counted, not timed: an unpack takes a
// fixed number of them.
func TestWindowFills(t *testing.T) {
	const unpackSteps, work = 40, 64
	steps := map[string]int{}
	for _, window := range []string{"16", "1"} {
		a, b := pair(t, map[string]string{"chunk": "4KiB", "send-window": window,
			"receive-window": window}, 1<<20)
		var launched [bounce.UnpackSlots]int
		step := 0
		u := slow(b, func(slot int) bool { return step >= launched[slot]+unpackSteps })
		noting := &notingUnpacker{slowUnpacker: u, note: func(slot int) { launched[slot] = step }}
		b.unpacker.Unpacker = noting
		data := random(1, 4<<10)
		size := uint64(a.config.SendWindow)
		eventually(t, "all requests", func() bool {
			step++
			for b.In.Posted() < work && b.In.Posted()-b.In.Consumed() < size {
				err := b.In.PostReceive(b.Destination.Slice(0, len(data)), b.In.Posted())
				require.NoError(t, err)
			}
			for a.Out.Posted() < work && a.Out.Posted()-a.Out.requests.First() < size {
				err := a.Out.PostSend(data, a.Out.Posted())
				require.NoError(t, err)
			}
			require.NoError(t, a.Progress())
			require.NoError(t, b.Progress())
			a.Out.FreeAll()
			for consumed(b) {
			}
			return b.In.Consumed() == work
		})
		steps[window] = step
		if window == "16" {
			require.EqualValues(t, Requests, b.Counters.ReceivePeak, "peak of the receive window")
			require.EqualValues(t, Requests, b.Counters.PendingPeak,
				"peak of receives being unpacked")
		} else {
			require.EqualValues(t, 1, b.Counters.ReceivePeak)
			require.EqualValues(t, 1, a.Counters.SendPeak)
		}
	}
	require.GreaterOrEqual(t, steps["1"], work*unpackSteps, "steps with a window of one")
	require.Less(t, steps["16"], steps["1"], "steps with a window of 16")
}

// notingUnpacker calls note for each launch.
type notingUnpacker struct {
	*slowUnpacker
	note func(slot int)
}

func (u *notingUnpacker) Launch(slot int, fragments []bounce.Fragment, to bounce.Buffer) error {
	u.note(slot)
	return u.slowUnpacker.Launch(slot, fragments, to)
}

// TestScatter: the fragments of a request lie in no order, the last of a chunk may fill its page
// in part, and together they cover the destination once, without gaps.
func TestScatter(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "64KiB", "request": "512KiB", "sockets": "4"}, 1<<20)
	slow(b, func(int) bool { return true })
	var monotonic, requestsSeen int
	for i, size := range []int{512 << 10, 512<<10 - 1, 500_001, 4097, 512 << 10} {
		data := random(uint64(i), size)
		err := b.In.PostReceive(b.Destination.Slice(0, 512<<10), 1)
		require.NoError(t, err)
		err = a.Out.PostSend(data, 1)
		require.NoError(t, err)
		var list []bounce.Fragment
		number := b.In.Consumed()
		eventually(t, "the request", func() bool {
			require.NoError(t, a.Progress())
			require.NoError(t, b.Progress())
			if b.In.launched == number+1 && list == nil {
				list = append(list, b.In.requests.At(number).fragments...)
			}
			return consumed(b)
		})
		covered := make([]int, size)
		rising := true
		partial := false
		for k, d := range list {
			require.Zero(t, d.Source%pageSize, "a fragment begins with its page")
			require.LessOrEqual(t, d.Length, uint32(pageSize))
			partial = partial || d.Length < pageSize
			if k > 0 && d.Source < list[k-1].Source {
				rising = false
			}
			for at := d.Destination; at < d.Destination+d.Length; at++ {
				covered[at]++
			}
		}
		for at, times := range covered {
			if times != 1 {
				require.FailNow(t, "not covered once",
					"byte %d of the destination is covered %d times", at, times)
			}
		}
		require.Equal(t, size%pageSize != 0, partial, "a fragment that fills its page in part")
		if requestsSeen++; rising {
			monotonic++
		}
		require.True(t, bytes.Equal(data, b.Destination.Host[:size]))
		awaitFreed(t, a, b)
	}
	require.Zero(t, monotonic, "Requests of %d whose fragments lay in order", requestsSeen)
}
