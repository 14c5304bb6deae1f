package tcpx

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowUnpacker delays what it hands to the host's: a request is copied only when it is
// asked about after its time, as if the copy took that long.
type slowUnpacker struct {
	unpacker
	ripe func(slot int) bool // says that the time of a slot has come
	held [unpackSlots]struct {
		descriptors []descriptor
		to          buffer
		launched    time.Time
		copied      bool
	}
}

func (u *slowUnpacker) launch(slot int, descriptors []descriptor, to buffer) error {
	h := &u.held[slot]
	h.descriptors, h.to, h.launched, h.copied = descriptors, to, time.Now(), false
	return nil
}

func (u *slowUnpacker) done(slot int) (bool, error) {
	h := &u.held[slot]
	if !h.copied {
		if !u.ripe(slot) {
			return false, nil
		}
		h.copied = true
		if err := u.unpacker.launch(slot, h.descriptors, h.to); err != nil {
			return false, err
		}
	}
	return u.unpacker.done(slot)
}

// poisonedPool overwrites pages that are given back, so that an unpack which comes too
// late copies poison.
type poisonedPool struct{ *pool }

func (p poisonedPool) give(fragments []fragment, reserved int) {
	for _, f := range fragments {
		page := p.bytes[f.source/pageSize*pageSize:][:pageSize]
		for i := range page {
			page[i] = 0xA5
		}
	}
	p.pool.give(fragments, reserved)
}

// slow has an endpoint unpack slowly, and poison what it gives back.
func slow(e *endpoint, ripe func(slot int) bool) *slowUnpacker {
	u := &slowUnpacker{unpacker: e.unpacks.unpacker, ripe: ripe}
	e.unpacks.unpacker = u
	e.comm.intake = poisonedPool{e.intake.(*pool)}
	return u
}

// transferOnce sends data from one thread to another, with unpacks that take as long as
// delay, and compares.
func transferOnce(t *testing.T, options map[string]string, data []byte, delay time.Duration) {
	t.Helper()
	a, b, err := newEndpoints(testSettings(t, options), max(powerOfTwo(len(data)), ringUnit))
	require.NoError(t, err)
	defer func() {
		require.NoError(t, a.close())
		require.NoError(t, b.close())
		require.Equal(t, cap(b.intake.(*pool).free), b.intake.(*pool).unclaimed, "bounce pages that came back")
	}()
	u := slow(b, nil)
	u.ripe = func(slot int) bool { return time.Since(u.held[slot].launched) >= delay }
	s := a.comm.settings
	var stopped atomic.Bool
	var sendErr error
	var both sync.WaitGroup
	both.Go(func() {
		left := data
		sendErr = a.send(&stopped, 1000, func() (part []byte) {
			part, left = left[:min(len(left), s.request)], left[min(len(left), s.request):]
			return part
		})
		if sendErr != nil {
			stopped.Store(true)
		}
	})
	whole := b.destination.size / 2
	size, err := b.receive(&stopped, 1000, func(number uint64) buffer {
		at := min(int(number)*s.request, whole)
		return b.destination.slice(at, min(s.request, b.destination.size-at))
	})
	if err != nil {
		stopped.Store(true)
	}
	both.Wait()
	require.NoError(t, err)
	require.NoError(t, sendErr)
	require.Equal(t, len(data), size)
	require.True(t, bytes.Equal(data, b.destination.host[:len(data)]), "the bytes")
}

// TestConsumeIsGated: with an unpack that takes 50 ms a request can not be consumed
// before, and its pages are not used again; once it is, the bytes are right.
func TestConsumeIsGated(t *testing.T) {
	a, b := pair(t, nil, 16<<20)
	u := slow(b, nil)
	u.ripe = func(slot int) bool { return time.Since(u.held[slot].launched) >= 50*time.Millisecond }
	const each = 300_001
	data := random(1, requests*each)
	for i := range uint64(requests) {
		_, err := b.comm.irecv(b.destination.slice(int(i)*each, each), i)
		require.NoError(t, err)
		_, err = a.comm.isend(vector{data[int(i)*each:][:each]}, i)
		require.NoError(t, err)
	}
	free := len(b.intake.(*pool).free)
	refused := 0
	for i := range uint64(requests) {
		eventually(t, "a request to be consumed", func() bool {
			require.NoError(t, a.comm.progress())
			done, _, err := b.comm.testReceive(i)
			require.NoError(t, err)
			if !done {
				return false
			}
			err = b.comm.consumed(i)
			if err == nil {
				return true
			}
			require.ErrorIs(t, err, errUnpacking)
			require.Less(t, len(b.intake.(*pool).free), free, "free pages while a request is being unpacked")
			refused++
			return false
		})
		require.True(t, bytes.Equal(data[int(i)*each:][:each], b.destination.host[int(i)*each:][:each]), "request %d", i)
	}
	require.Positive(t, refused, "consumes that were refused")
	require.Positive(t, b.counts.unpackNS, "time that unpacking took")
	require.Len(t, b.intake.(*pool).free, free)
}

// TestUngatedWouldShow: what the test above looks for is there to be found. Pages that
// are given back before the unpack yield poison.
func TestUngatedWouldShow(t *testing.T) {
	a, b := pair(t, nil, 1<<20)
	var late bool
	slow(b, func(int) bool { return late })
	data := random(2, 100_000)
	_, err := b.comm.irecv(b.destination.slice(0, len(data)), 1)
	require.NoError(t, err)
	_, err = a.comm.isend(vector{data}, 1)
	require.NoError(t, err)
	eventually(t, "the unpack to be launched", func() bool {
		require.NoError(t, a.comm.progress())
		require.NoError(t, b.comm.progress())
		return b.comm.receiveLaunched == 1
	})
	r := &b.comm.receives[0]
	fragments := append([]fragment(nil), r.fragments...)
	for _, f := range fragments {
		for i := range pageSize {
			b.intake.memory()[int(f.source/pageSize*pageSize)+i] = 0xA5
		}
	}
	late = true
	eventually(t, "the unpack", func() bool {
		require.NoError(t, b.comm.collect())
		return r.unpacked
	})
	require.False(t, bytes.Equal(data, b.destination.host[:len(data)]))
}

// TestWindowFills: with a receiver that unpacks slowly all 16 receives are under way,
// and with a window of one the same work takes more turns. Turns are counted, not
// timed: an unpack takes so many of them.
func TestWindowFills(t *testing.T) {
	const unpackTurns, work = 40, 64
	turns := map[string]int{}
	for _, window := range []string{"16", "1"} {
		a, b := pair(t, map[string]string{"chunk": "4KiB", "send-window": window, "receive-window": window}, 1<<20)
		var launched [unpackSlots]int
		turn := 0
		u := slow(b, func(slot int) bool { return turn >= launched[slot]+unpackTurns })
		noting := &notingUnpacker{slowUnpacker: u, note: func(slot int) { launched[slot] = turn }}
		b.unpacks.unpacker = noting
		data := random(1, 4<<10)
		size := uint64(a.comm.settings.sendWindow)
		eventually(t, "all requests", func() bool {
			turn++
			for b.comm.receivePosted < work && b.comm.receivePosted-b.comm.receiveConsumed < size {
				_, err := b.comm.irecv(b.destination.slice(0, len(data)), b.comm.receivePosted)
				require.NoError(t, err)
			}
			for a.comm.sendPosted < work && a.comm.sendPosted-a.comm.sendFreed < size {
				_, err := a.comm.isend(vector{data}, a.comm.sendPosted)
				require.NoError(t, err)
			}
			require.NoError(t, a.comm.progress())
			require.NoError(t, b.comm.progress())
			for a.comm.freeSend() {
			}
			for b.comm.doneReceive() {
			}
			for b.comm.consumed(b.comm.receiveConsumed) == nil {
			}
			return b.comm.receiveConsumed == work
		})
		turns[window] = turn
		if window == "16" {
			require.EqualValues(t, requests, b.counts.receivePeak, "peak of the receive window")
			require.EqualValues(t, requests, b.counts.pendingPeak, "peak of receives being unpacked")
		} else {
			require.EqualValues(t, 1, b.counts.receivePeak)
			require.EqualValues(t, 1, a.counts.sendPeak)
		}
	}
	require.GreaterOrEqual(t, turns["1"], work*unpackTurns, "turns with a window of one")
	require.Less(t, turns["16"], turns["1"], "turns with a window of 16")
}

// notingUnpacker tells of launches.
type notingUnpacker struct {
	*slowUnpacker
	note func(slot int)
}

func (u *notingUnpacker) launch(slot int, descriptors []descriptor, to buffer) error {
	u.note(slot)
	return u.slowUnpacker.launch(slot, descriptors, to)
}

// TestScatter: what arrives is scattered: the fragments of a request lie in no order,
// the last of a chunk fills its page in part, and together they cover the destination
// once, without gaps.
func TestScatter(t *testing.T) {
	a, b := pair(t, map[string]string{"chunk": "64KiB", "request": "512KiB", "sockets": "4"}, 1<<20)
	slow(b, func(int) bool { return true })
	var monotonic, requestsSeen int
	for i, size := range []int{512 << 10, 512<<10 - 1, 500_001, 4097, 512 << 10} {
		data := random(uint64(i), size)
		_, err := b.comm.irecv(b.destination.slice(0, 512<<10), 1)
		require.NoError(t, err)
		_, err = a.comm.isend(vector{data}, 1)
		require.NoError(t, err)
		var list []descriptor
		number := b.comm.receiveConsumed
		eventually(t, "the request", func() bool {
			require.NoError(t, a.comm.progress())
			require.NoError(t, b.comm.progress())
			if b.comm.receiveComplete == number+1 && list == nil {
				list = append(list, b.comm.receives[number%requests].descriptors...)
			}
			for b.comm.doneReceive() {
			}
			return b.comm.consumed(number) == nil
		})
		covered := make([]int, size)
		rising := true
		partial := false
		for k, d := range list {
			require.Zero(t, d.source%pageSize, "a fragment begins with its page")
			require.LessOrEqual(t, d.length, uint32(pageSize))
			partial = partial || d.length < pageSize
			if k > 0 && d.source < list[k-1].source {
				rising = false
			}
			for at := d.destination; at < d.destination+uint64(d.length); at++ {
				covered[at]++
			}
		}
		for at, times := range covered {
			if times != 1 {
				require.FailNow(t, "not covered once", "byte %d of the destination is covered %d times", at, times)
			}
		}
		require.Equal(t, size%pageSize != 0, partial, "a fragment that fills its page in part")
		if requestsSeen++; rising {
			monotonic++
		}
		require.True(t, bytes.Equal(data, b.destination.host[:size]))
		eventually(t, "the acknowledgement", func() bool {
			require.NoError(t, b.comm.progress())
			done, err := a.comm.testSend(a.comm.sendFreed)
			require.NoError(t, err)
			return done
		})
	}
	require.Zero(t, monotonic, "requests of %d whose fragments lay in order", requestsSeen)
}

// TestUnpackAlignments copies between all 256 pairs of alignments to 16 bytes, in all
// lengths that matter, and touches nothing else.
func TestUnpackAlignments(t *testing.T) {
	for _, length := range []int{0, 1, 15, 16, 17, 4095, 4096} {
		bounce := random(uint64(length), 2*pageSize)
		for from := range 16 {
			for to := range 16 {
				destination := bytes.Repeat([]byte{0xEE}, length+48)
				unpack(destination, bounce, []descriptor{{source: uint32(from), length: uint32(length), destination: uint64(16 + to)}})
				want := bytes.Repeat([]byte{0xEE}, length+48)
				copy(want[16+to:], bounce[from:from+length])
				require.True(t, bytes.Equal(want, destination), "%d bytes from %d to %d", length, from, to)
			}
		}
	}
}

// TestUnpackWorkers: workers take what is launched in any slot, also after they slept,
// and close waits for what was launched.
func TestUnpackWorkers(t *testing.T) {
	for _, workers := range []int{1, 3, unpackSlots} {
		u, err := newHostUnpacker(workers)
		require.NoError(t, err)
		bounce, err := newRing("transportbench-tcpx-test", unpackSlots*pageSize)
		require.NoError(t, err)
		bounce = bounce[:unpackSlots*pageSize]
		copy(bounce, random(uint64(workers), len(bounce)))
		require.ErrorIs(t, u.register(bounce[1:]), errMisaligned)
		require.NoError(t, u.register(bounce))
		destination := make([]byte, len(bounce))
		for round := range 3 {
			clear(destination)
			for slot := range unpackSlots {
				at := slot * pageSize
				require.NoError(t, u.launch(slot, []descriptor{{source: uint32(at), length: pageSize}}, buffer{host: destination[at:], size: pageSize}))
			}
			for slot := range unpackSlots {
				eventually(t, "a slot", func() bool {
					done, err := u.done(slot)
					require.NoError(t, err)
					return done
				})
			}
			require.True(t, bytes.Equal(bounce, destination))
			if round == 1 { // let them fall asleep
				for _, c := range u.(*hostUnpacker).copier {
					eventually(t, "a worker to sleep", func() bool { return c.asleep.Load() })
				}
			}
		}
		clear(destination)
		require.NoError(t, u.launch(0, []descriptor{{length: pageSize}}, buffer{host: destination, size: pageSize}))
		require.NoError(t, u.close())
		require.NoError(t, u.close())
		require.True(t, bytes.Equal(bounce[:pageSize], destination[:pageSize]), "launched before close")
		require.NoError(t, freeRing(bounce[:2*len(bounce)]))
	}
}
