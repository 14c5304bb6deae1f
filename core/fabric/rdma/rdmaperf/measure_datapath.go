package rdmaperf

import (
	"fmt"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/rdma"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

// post posts n requests with one doorbell. Only the last is signaled.
func (s *side) post(n int, number uint32) error {
	for i := range n {
		r := &s.requests[i]
		r.ID = uint64(n)
		r.Opcode = s.opcode
		r.Flags = 0
		r.Local = s.region.Address
		r.LocalKey = s.region.LocalKey
		r.Length = uint32(s.size)
		r.Remote = s.remote.Address + sendSize
		r.RemoteKey = s.remote.Key
		r.Immediate = number
		r.Peer = s.peer
		if s.size <= s.options.Inline && s.opcode != rdma.Read {
			r.Flags = rdma.Inline
		}
	}
	s.requests[n-1].Flags |= rdma.Signaled
	s.pending += n
	posted, err := s.qp.PostSend(s.requests[:n])
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
	consumed := 0
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
			consumed++
		default:
			s.pending -= int(c.ID)
			s.done += int(c.ID)
		}
	}
	if consumed > 0 {
		_, err = s.qp.PostReceive(s.receives[:consumed])
	}
	return err
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
	for s.pending >= s.options.Depth-1 && !s.stopped.Load() {
		if err := s.poll(); err != nil {
			return err
		}
	}
	return s.post(1, uint32(number))
}

// timedTogether is the number of messages that are timed together, because reading some
// clocks takes longer than a message.
const timedTogether = 8

// latencies measures messages one at a time.
func (s *side) latencies(r *transport.Measurement) error {
	var times []float64
	way := 2.0
	if s.opcode == rdma.Read {
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
		if s.opcode == rdma.Read {
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
	if !s.latency || s.opcode == rdma.Read {
		for !s.stopped.Load() {
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

// stream keeps the send queue full.
func (s *side) stream(r *transport.Measurement) error {
	begin, warm := time.Now(), 0
	var from time.Time
	for {
		for s.pending+s.postlist <= s.options.Depth {
			if err := s.post(s.postlist, 0); err != nil {
				return err
			}
		}
		if err := s.poll(); err != nil || s.stopped.Load() {
			return err
		}
		now := time.Now()
		if from.IsZero() && now.Sub(begin) > s.options.Duration/5 {
			from, warm = now, s.done
		}
		if elapsed := now.Sub(from); !from.IsZero() && elapsed > s.options.Duration && s.done > warm {
			r.Samples = s.done - warm
			r.Rate = float64(r.Samples) / elapsed.Seconds()
			r.Bandwidth = r.Rate * float64(s.size)
			return nil
		}
	}
}
