package rdmaperf

import (
	"fmt"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// post posts n requests with one doorbell, numbered on from number. The last of them is signaled if
// enough were not.
func (s *side) post(p *pair, n int, number uint32) error {
	for i := range n {
		r := &s.requests[i]
		r.Opcode = s.opcode
		r.Flags = 0
		r.Local = s.region.Address
		r.LocalKey = s.region.LocalKey
		r.Length = uint32(s.size)
		r.Remote = s.remote.Address + sendSize
		r.RemoteKey = s.remote.Key
		r.Immediate = number
		r.Peer = p.peer
		if s.size <= s.inline && !s.fetches() {
			r.Flags = rdma.Inline
		}
		if s.opcode == rdma.CompareSwap {
			r.Operand, r.Swap = uint64(s.posted+i), uint64(s.posted+i+1)
		} else {
			r.Operand = 1
		}
	}
	if p.unsignaled += n; p.unsignaled >= s.signal {
		last := &s.requests[n-1]
		last.ID = uint64(p.unsignaled)
		last.Flags |= rdma.Signaled
		p.unsignaled = 0
	}
	p.pending += n
	s.posted += n
	posted, err := p.PostSend(s.requests[:n])
	if posted < n {
		return fmt.Errorf("post %d requests: %w", n, err)
	}
	return nil
}

// poll polls completions and replaces consumed receives.
func (s *side) poll() error {
	n, err := s.cq.Poll(s.polled[:])
	if err != nil {
		return err
	}
	for i := range s.polled[:n] {
		c := &s.polled[i]
		switch {
		case c.Status != rdma.StatusOK:
			if s.stopped.Load() {
				return nil // the other side has closed
			}
			return fmt.Errorf("completion: %v", c.Status)
		case c.Opcode == rdma.Receive || c.Opcode == rdma.ReceiveWriteImmediate:
			s.arrived++
			s.pairs[c.QueuePair].consumed++
		default:
			s.pairs[c.QueuePair].pending -= int(c.ID)
			s.done += int(c.ID)
		}
	}
	if n == 0 || !s.consumes() {
		return nil
	}
	for i := range s.pairs {
		p := &s.pairs[i]
		if _, err := p.PostReceive(s.receives[:p.consumed]); err != nil {
			return err
		}
		p.consumed = 0
	}
	return nil
}

// await waits for the message with this number. A WRITE shows in memory, any other message
// as a completion.
func (s *side) await(number int) error {
	if s.opcode != rdma.Write {
		for s.arrived < number && !s.stopped.Load() {
			if err := s.poll(); err != nil {
				return err
			}
		}
		return nil
	}
	word := shm.Word32(s.region.Bytes, sendSize)
	// The bytes of the word may arrive in any order; it has the number once all have.
	for spins := 1; word.Load() != uint32(number) && !s.stopped.Load(); spins++ {
		// The soft device moves bytes only when polled, and on any device the connection may
		// break.
		if s.soft || spins%pollEvery == 0 {
			if err := s.poll(); err != nil {
				return err
			}
		}
	}
	return s.poll()
}

// pollEvery is the number of looks at memory between two polls.
const pollEvery = 1 << 10

// send sends the message with this number.
func (s *side) send(number int) error {
	shm.Word32(s.region.Bytes, 0).Store(uint32(number))
	p := &s.pairs[0]
	for p.pending >= s.depth-1 && !s.stopped.Load() {
		if err := s.poll(); err != nil {
			return err
		}
	}
	return s.post(p, 1, uint32(number))
}

// timedTogether is the number of messages that are timed together, because reading some
// clocks takes longer than a message.
const timedTogether = 8

// latencies measures messages one at a time.
func (s *side) latencies(r *transport.Measurement) error {
	var times []float64
	way := 2.0
	if s.fetches() {
		way = 1
	}
	// The first samples include the start of the other side, and mappings at first use.
	const warmup = 5
	begin := time.Now()
	before := begin
	for number := 1; len(times) < warmup+5 || before.Sub(begin) < s.options.Duration; number++ {
		if err := s.send(number); err != nil {
			return err
		}
		if s.fetches() {
			for s.done < number && !s.stopped.Load() {
				if err := s.poll(); err != nil {
					return err
				}
			}
		} else if err := s.await(number); err != nil {
			return err
		}
		if s.stopped.Load() {
			return nil
		}
		if number%timedTogether == 0 {
			now := time.Now()
			times = append(times, float64(now.Sub(before))/way/timedTogether)
			before = now
		}
	}
	times = times[warmup:]
	r.Latency, r.Samples = floor.Median(times), len(times)*timedTogether
	return nil
}

// respond is the other side of latencies and stream.
func (s *side) respond() error {
	if !s.latency || s.fetches() {
		for !s.stopped.Load() {
			if !s.soft && !s.consumes() {
				// The device serves one-sided operations alone, and one in software would have to
				// share its processor with a thread that polls.
				time.Sleep(time.Millisecond)
				continue
			}
			if err := s.poll(); err != nil {
				return err
			}
		}
		return nil
	}
	for number := 1; ; number++ {
		if err := s.await(number); err != nil || s.stopped.Load() {
			return err
		}
		if err := s.send(number); err != nil {
			return err
		}
	}
}

// checkAtomics waits for all requests and checks that the responder's word counts them. A
// CompareSwap counts only if it found the number of the one before it.
func (s *side) checkAtomics(memory []byte) error {
	for s.done < s.posted {
		if s.stopped.Load() {
			return nil
		}
		if err := s.poll(); err != nil {
			return err
		}
	}
	if counted := shm.Word64(memory, sendSize).Load(); counted != uint64(s.posted) {
		return fmt.Errorf("%d requests took effect, but %d completed", counted, s.posted)
	}
	return nil
}

// stream keeps the send queues full.
func (s *side) stream(r *transport.Measurement) error {
	begin, warm := time.Now(), 0
	var from time.Time
	for {
		for i := range s.pairs {
			for p := &s.pairs[i]; p.pending+s.postlist <= s.depth; {
				if err := s.post(p, s.postlist, 0); err != nil {
					return err
				}
			}
		}
		if err := s.poll(); err != nil || s.stopped.Load() {
			return err
		}
		now := time.Now()
		if from.IsZero() && now.Sub(begin) > s.options.Duration/5 {
			from, warm = now, s.done
		}
		if elapsed := now.Sub(from); !from.IsZero() && elapsed > s.options.Duration &&
			s.done > warm {
			r.Samples = s.done - warm
			r.Rate = float64(r.Samples) / elapsed.Seconds()
			r.Bandwidth = r.Rate * float64(s.size)
			return nil
		}
	}
}
