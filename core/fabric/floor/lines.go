package floor

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// Lines is the memory that two threads share to measure the floors of messages in memory. Each
// thread has its own copy of the struct, over the same bytes.
//
// A message occupies the cache lines that its header and payload need. The sender writes each line,
// and the receiver reads it, or only one word if that suffices to move the line between the cores.
// A transport also reads the payload where the application has it, and may copy it again at the
// receiver; that is work on top of the medium's. The first word of a message holds its number, so
// that neither side has to reset anything.
type Lines struct {
	// Control has a cache line to itself and is zero at first. The initiator announces a probe in
	// it.
	Control *atomic.Uint64
	// Forth and Back hold the messages of the two directions and are aligned to a cache line. A
	// probe returns transport.ErrUnsupported if one payload does not fit. If those in flight do not
	// fit, it keeps fewer in flight, which is no slower.
	Forth, Back []byte
}

// LineSize is the size of a cache line. Some processors of arm64 have longer ones.
const LineSize = 64

const (
	// lineTrips is how many round trips are timed together. Two readings of the clock cost less
	// than 1% of them.
	lineTrips = 64
	// lineSlice is how long one way to stream is measured before the next, and lineWideShare the
	// share of the probe that a slice with lineWide takes instead: several rounds through the
	// memory.
	lineSlice     = 50 * time.Microsecond
	lineWideShare = 10
	// lineChunk is how many lines of a long message the writer publishes at once if messages are
	// chunked.
	lineChunk = 64
	// lineBypassed is the length in lines from which bypassing the caches may be fastest.
	lineBypassed = 16
	// controlLooks is the number of empty polls after which a follower reads Control again.
	controlLooks = 64
)

// The word after a message's number tells the follower how to handle the message. The fastest way
// depends on the processor, the distance between the cores and the payload, so a probe alternates
// between the ways and takes the fastest as the floor.
const (
	lineGroup     = 1<<16 - 1 // answer when this many have arrived
	linePauses    = 1 << 16   // pause between two looks for the next one
	linePrefetch  = 1 << 17   // request the lines of the next answer before they are written
	lineChunked   = 1 << 18   // publish long messages in chunks
	lineLast      = 1 << 19   // the probe is over
	lineAlternate = 1 << 20   // after the answer, alternate on one line lineTrips times
	lineBypass    = 1 << 21   // write with stores that bypass the caches
	// go round in all of the memory, not only in that of the messages in flight
	lineWide = 1 << 22
)

// Probe implements [transport.Prober] over the lines, except for the peer: both threads call it
// with the same probe, one with Initiate set. It spins.
func (l *Lines) Probe(ctx context.Context, probe transport.Probe) (transport.Floor, error) {
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	slots := 2
	switch probe.Kind {
	case transport.ProbeMedium:
	case transport.ProbeRate:
		slots = min(max(probe.InFlight, 2), lineGroup)
	default:
		return transport.Floor{}, transport.ErrUnsupported
	}
	forth, back := newLane(l.Forth, probe.Forth), newLane(l.Back, probe.Back)
	slots = min(slots, len(forth.memory)/forth.stride, len(back.memory)/back.stride)
	if probe.Forth < 0 || probe.Back < 0 || slots == 0 {
		return transport.Floor{},
			fmt.Errorf("%w: payloads of %d and %d bytes do not fit into the memory for probes",
				transport.ErrUnsupported, probe.Forth, probe.Back)
	}
	s := &lineSide{control: l.Control, stopped: &stopped, in: forth.narrowed(slots),
		out: back.narrowed(slots)}
	if !probe.Initiate {
		if !s.follow() {
			return transport.Floor{}, context.Cause(ctx)
		}
		return transport.Floor{}, nil
	}
	s.in, s.out = s.out, s.in
	var reading transport.Floor
	s.begin(rand.Uint64() | 1)
	s.control.Store(s.base)
	if probe.Kind == transport.ProbeMedium {
		reading = s.pingPong(probe.Duration)
	} else {
		reading = s.stream(probe.Duration, min(max(probe.InFlight, 1), slots))
	}
	if !stopped.Load() { // else it could end the next probe of a follower that abandoned this one
		s.post(lineLast|1, 1)
		s.take(lineLast|1, 1)
	}
	if stopped.Load() {
		s.control.Store(0)
		return transport.Floor{}, context.Cause(ctx)
	}
	return reading, nil
}

// lane is the ring of messages in one direction.
type lane struct {
	memory []byte // of whole messages
	narrow int    // bytes of memory that messages without lineWide go round in
	lines  int    // of a message
	stride int    // bytes from message to message
	at     int    // offset of the next message
	number uint64 // of the next message
	read   uint64 // sum of what was read, so that the compiler keeps the loads
}

func newLane(memory []byte, payload int) lane {
	lines := (max(payload, 0) + transport.ProbeHeader + LineSize - 1) / LineSize
	stride := lines * LineSize
	return lane{memory: memory[:len(memory)/stride*stride], lines: lines, stride: stride}
}

// narrowed returns the lane for a number of messages in flight. It touches the pages of the rest of
// its memory, so that no measurement contains page faults.
func (l lane) narrowed(slots int) lane {
	l.narrow = slots * l.stride
	if l.lines <= lineChunk {
		l.memory = l.memory[:l.narrow]
	}
	for at := l.narrow; at < len(l.memory); at += os.Getpagesize() {
		l.read += atomic.LoadUint64(word(l.memory, at))
	}
	return l
}

// slot returns the memory of the next message.
func (l *lane) slot() []byte { return l.memory[l.at:][:l.stride:l.stride] }

// advance moves past a message with the given tag.
func (l *lane) advance(tag uint64) {
	l.number++
	end := l.narrow
	if tag&lineWide != 0 {
		end = len(l.memory)
	}
	if l.at += l.stride; l.at >= end {
		l.at = 0
	}
}

func (l *lane) chunk(tag uint64) int {
	if tag&lineChunked != 0 {
		return lineChunk
	}
	return l.lines
}

// lineSide is one side of a probe.
type lineSide struct {
	control *atomic.Uint64
	stopped *atomic.Bool
	base    uint64 // number of this probe's first messages; never 0
	in, out lane
}

func (s *lineSide) begin(base uint64) {
	s.base = base
	s.in.number, s.out.number = base, base
	s.in.at, s.out.at = 0, 0
}

// post writes count messages.
func (s *lineSide) post(tag uint64, count int) {
	l := &s.out
	if l.lines == 1 {
		for range count {
			b := l.slot()
			binary.NativeEndian.PutUint64(b[8:], tag)
			shm.StoreRelease64(word(b, 0), l.number)
			l.advance(tag)
		}
		return
	}
	bypass, chunk := tag&lineBypass != 0, l.chunk(tag)
	if bypass && chunk >= l.lines {
		for ahead, left := *l, count; left > 0; left-- {
			bypassCaches(ahead.slot()[LineSize:], ahead.number)
			ahead.advance(tag)
		}
		storeFence()
	}
	for range count {
		b, value := l.slot(), l.number
		l.advance(tag)
		binary.NativeEndian.PutUint64(b[8:], tag)
		for from := 0; from < len(b); from += chunk * LineSize {
			part := b[from:min(from+chunk*LineSize, len(b))]
			switch {
			case !bypass:
				for at := LineSize; at < len(part); at += LineSize {
					binary.NativeEndian.PutUint64(part[at:], value)
				}
			case chunk < l.lines:
				bypassCaches(part[LineSize:], value)
				storeFence()
			}
			shm.StoreRelease64(word(part, 0), value)
		}
	}
}

// prefetch requests the lines of the next count messages to write, up to the number of requests
// that a core can have outstanding.
func (s *lineSide) prefetch(tag uint64, count int) {
	const maximum = 16
	l := s.out
	for range min(count, maximum) {
		b := l.slot()
		l.advance(tag)
		for at := 0; at < min(len(b), maximum*LineSize); at += LineSize {
			shm.PrefetchWrite(word32(b, at))
		}
	}
}

// arrived reports whether the next message is there, or its first chunk.
func (s *lineSide) arrived() bool {
	l := &s.in
	return atomic.LoadUint64(word(l.memory, l.at)) == l.number
}

// accept reads a message that has arrived and returns its tag. It returns false if it was stopped.
func (s *lineSide) accept() (tag uint64, ok bool) {
	l := &s.in
	b, value := l.slot(), l.number
	tag = binary.NativeEndian.Uint64(b[8:])
	l.advance(tag)
	if l.lines == 1 {
		return tag, true
	}
	chunk, sum := l.chunk(tag), uint64(0)
	var wait spin.Wait
	for from := 0; from < len(b); from += chunk * LineSize {
		part := b[from:min(from+chunk*LineSize, len(b))]
		looks := 0
		for ; atomic.LoadUint64(word(part, 0)) != value; looks++ {
			if s.stopped.Load() {
				return tag, false
			}
			wait.IdleAfter(looks)
		}
		wait.FoundAfter(looks)
		for at := LineSize; at < len(part); at += LineSize {
			sum += binary.NativeEndian.Uint64(part[at:])
		}
	}
	l.read += sum
	return tag, true
}

// take waits for count messages and reads them. It returns early if it is stopped.
func (s *lineSide) take(tag uint64, count int) {
	var wait spin.Wait
	for range count {
		looks := 0
		for ; !s.arrived(); looks++ {
			if s.stopped.Load() {
				return
			}
			wait.IdleAfter(looks)
			if tag&linePauses != 0 {
				spin.Pause()
			}
		}
		wait.FoundAfter(looks)
		if _, ok := s.accept(); !ok {
			return
		}
	}
}

// ways returns the tags with which to try each size of a group.
func (s *lineSide) ways(groups ...int) (all []uint64) {
	tags := []uint64{0, linePauses, linePrefetch, linePauses | linePrefetch}
	past := []uint64{lineBypass, lineBypass | linePauses}
	if s.longest() > lineChunk { // waiting and prefetching hardly matter for a long message
		tags = []uint64{0, lineChunked}
		past = []uint64{lineBypass, lineBypass | lineChunked}
	}
	if bypasses && s.longest() >= lineBypassed {
		tags = append(tags, past...)
	}
	if len(s.in.memory) > s.in.narrow || len(s.out.memory) > s.out.narrow {
		tags = append(tags, lineWide)
	}
	for _, g := range groups {
		for _, tag := range tags {
			all = append(all, tag|uint64(g))
		}
	}
	return all
}

// longest returns the lines of the longer message.
func (s *lineSide) longest() int { return max(s.in.lines, s.out.lines) }

// pingPong measures round trips of one message for about d after the other side has joined.
func (s *lineSide) pingPong(d time.Duration) transport.Floor {
	trips := lineTrips
	if n := s.in.lines + s.out.lines; n > 16 { // a line takes some nanoseconds
		trips = max(lineTrips*16/n, 1)
	}
	trip := func(tag uint64) {
		s.post(tag, 1)
		if tag&linePrefetch != 0 {
			s.prefetch(tag, 1)
		}
		s.take(tag, 1)
	}
	trip(1) // waits for the other side
	ways := s.ways(1)
	if s.in.lines == 1 && s.out.lines == 1 {
		ways = append(ways, lineAlternate|1, lineAlternate|linePauses|1)
	}
	times := make([][]float64, len(ways))
	samples := 0
	for start := time.Now(); !s.stopped.Load(); {
		before := time.Since(start)
		if before >= d && samples >= len(ways) {
			break
		}
		way := samples % len(ways)
		trip(ways[way]) // the other side learns how to wait
		before = time.Since(start)
		if ways[way]&lineAlternate != 0 {
			s.alternate(ways[way], s.out.memory, 0)
		} else {
			for range trips {
				trip(ways[way])
			}
		}
		times[way] = append(times[way], float64(time.Since(start)-before)/float64(trips))
		samples++
	}
	name := "cache-line ping-pong"
	if s.longest() > 1 {
		name = fmt.Sprintf("cache-line ping-pong of %d and %d lines", s.out.lines, s.in.lines)
	}
	return transport.Floor{Name: name, RoundTrip: MinMedian(times), Samples: samples * trips}
}

// alternate makes both sides write one word in turn; the initiator has side 0. It is the fastest
// way for messages of one line if the threads share a core, because each step takes fewer
// instructions.
func (s *lineSide) alternate(tag uint64, memory []byte, side uint64) {
	const offset = 32 // in the line of the first message
	line, pauses := word(memory, offset), tag&linePauses != 0
	first := s.out.number + s.in.number // not yet in the line
	var wait spin.Wait
	for i := range uint64(lineTrips) {
		if side == 0 {
			atomic.StoreUint64(line, first+2*i)
		}
		looks := 0
		for ; atomic.LoadUint64(line) != first+2*i+1-side; looks++ {
			if s.stopped.Load() {
				return
			}
			wait.IdleAfter(looks)
			if pauses {
				spin.Pause()
			}
		}
		if side == 1 {
			atomic.StoreUint64(line, first+2*i+1)
		}
		wait.FoundAfter(looks)
	}
}

// stream measures the time per message with inFlight in flight, for about d after the other side
// has joined: the mean of a slice, and the median over the slices of a way, because a thread may
// lose its processor in a slice.
func (s *lineSide) stream(d time.Duration, inFlight int) transport.Floor {
	s.post(1, 1)
	s.take(1, 1) // waits for the other side
	groups := []int{max(inFlight/8, 1), max(inFlight/4, 1), max(inFlight/2, 1), inFlight}
	if s.longest() > lineChunk {
		groups = groups[:1] // an answer costs little beside a long message
	}
	slices.SortFunc(groups, func(a, b int) int { return cmp.Compare(b, a) })
	ways := s.ways(slices.Compact(groups)...)
	if inFlight == 1 && s.in.lines == 1 && s.out.lines == 1 {
		ways = append(ways, lineAlternate|1, lineAlternate|linePauses|1)
	}
	times := make([][]float64, len(ways))
	total := 0
	for start, turn := time.Now(), 0; !s.stopped.Load() &&
		Another(turn, len(ways), time.Since(start), d); turn++ {
		way := turn % len(ways)
		measure, slice := s.slice, min(max(lineSlice, d/100), d)
		if ways[way]&lineWide != 0 {
			slice = d / lineWideShare
		}
		if ways[way]&lineAlternate != 0 {
			measure = s.alternateSlice
		}
		n, elapsed := measure(ways[way], inFlight, slice)
		if n == 0 {
			break // stopped
		}
		times[way] = append(times[way], float64(elapsed)/float64(n))
		total += n
	}
	return transport.Floor{Name: "cache-line stream", PerOp: MinMedian(times), Samples: total}
}

// Another reports whether a probe takes another slice: until d is over and each way has three
// slices, within a limit.
func Another(turn, ways int, elapsed, d time.Duration) bool {
	return turn < ways || elapsed < d || turn < 3*ways && elapsed < maxOvertime*d
}

// MinMedian returns the least of the medians of lists of times, one list for each way.
func MinMedian(times [][]float64) (minimum float64) {
	for _, list := range times {
		if m := Median(list); m > 0 && (minimum == 0 || m < minimum) {
			minimum = m
		}
	}
	return minimum
}

// alternateSlice is slice on one line that both write.
func (s *lineSide) alternateSlice(tag uint64, _ int, d time.Duration) (ops int,
	elapsed time.Duration) {
	for elapsed < d && !s.stopped.Load() {
		s.post(tag, 1)
		s.take(tag, 1)
		start := time.Now()
		s.alternate(tag, s.out.memory, 0)
		elapsed += time.Since(start)
		ops += lineTrips
	}
	return ops, elapsed
}

// slice streams for about d with one way, and returns the number of messages and their time.
// Nothing is in flight when it begins and ends; it measures in between.
func (s *lineSide) slice(tag uint64, inFlight int, d time.Duration) (ops int,
	elapsed time.Duration) {
	group := int(tag & lineGroup)
	// The first window of messages fills the pipeline, and each reading of the clock costs some
	// nanoseconds.
	every := max(4*inFlight, 64) / group * group
	if s.out.lines+s.in.lines > lineChunk {
		every = max(inFlight/group*group, group)
	}
	sent, got, mark := 0, 0, every
	var start time.Time
	began := false
	var wait spin.Wait
	looks := 0
	for {
		if sent-got <= inFlight-group && mark >= 0 {
			s.post(tag, group)
			sent += group
			if tag&linePrefetch != 0 {
				s.prefetch(tag, group)
			}
		}
		if !s.arrived() {
			if s.stopped.Load() {
				return 0, 0
			}
			if tag&linePauses != 0 {
				spin.Pause()
			}
			wait.IdleAfter(looks)
			looks++
			continue
		}
		wait.FoundAfter(looks)
		looks = 0
		for s.arrived() {
			if _, ok := s.accept(); !ok {
				return 0, 0
			}
			got++
			if got == sent {
				break
			}
		}
		switch {
		case mark < 0:
			if got == sent {
				return ops, elapsed
			}
		case got >= mark:
			now := time.Now()
			if !began {
				began, start, ops = true, now, got
			} else if elapsed = now.Sub(start); elapsed >= d {
				ops, mark = got-ops, -1 // only what is under way is still read
				if got == sent {
					return ops, elapsed
				}
				continue
			}
			mark = got + every
		}
	}
}

// follow answers until the initiator ends the probe. It returns false if it was stopped first.
func (s *lineSide) follow() (over bool) {
	pauses, pending := false, 0
	slots := s.in.narrow / s.in.stride
	var wait spin.Wait
	for looks := 0; !s.stopped.Load(); looks++ {
		if s.base == 0 || looks%controlLooks == controlLooks-1 {
			// also after an abandoned probe
			if base := s.control.Load(); base != s.base && base != 0 {
				s.begin(base)
				pauses, pending = false, 0
			}
			if s.base == 0 {
				wait.IdleAfter(looks)
				continue
			}
		}
		if !s.arrived() {
			wait.IdleAfter(looks)
			if pauses {
				spin.Pause()
			}
			continue
		}
		wait.FoundAfter(looks)
		looks = 0
		tag, ok := s.accept()
		if !ok {
			return false
		}
		if tag&lineLast != 0 {
			s.control.CompareAndSwap(s.base, 0) // unless the next probe has begun
			s.post(tag, 1)
			return true
		}
		pauses = tag&linePauses != 0
		if pending++; pending >= min(int(tag&lineGroup), slots) {
			s.post(tag, pending)
			if tag&lineAlternate != 0 {
				s.alternate(tag, s.in.memory, 1)
			}
			if tag&linePrefetch != 0 {
				s.prefetch(tag, pending)
			}
			pending = 0
		}
	}
	return false
}
