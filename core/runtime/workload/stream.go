package workload

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/replay"
	"transportbench/core/fabric/pow2"
)

// Stream is a source of requests beside a [Generator]: those of one client in a part of a trace, in
// their order. It reads ahead into a ring of fixed size. If the part does not fit, a goroutine of
// its own reads on while a window runs, and the client never waits for it.
//
// One thread takes requests with Next, and for an open loop their times with After, some before and
// some after the requests. Neither locks, allocates or reads the file.
type Stream struct {
	file    *replay.File
	number  uint32 // of the client
	clients uint32
	keys    uint32
	again   bool // the times do not count, and the part begins again at its end
	whole   bool // the ring has all requests

	ring   []replay.Record
	mask   uint64
	taken  uint64 // requests
	timed  uint64 // times of requests
	before uint64 // nanoseconds: the time before
	known  uint64 // filled, as the client has last seen it
	// Starved counts the requests that had not been read when they were due, in the last window.
	// Others were sent in their place.
	Starved uint64

	_        [128]byte
	filled   atomic.Uint64 // records that were put into the ring in this window
	end      atomic.Uint64 // their number in all; endless until it is known
	_        [128]byte
	consumed atomic.Uint64 // records that the client is done with
	_        [128]byte

	// The rest is the reader's: of the goroutine, or of the caller of Rewind and Stop.
	at      uint64 // in the file
	chunk   []replay.Record
	memory  []byte
	stop    chan struct{}
	reading sync.WaitGroup
	err     error
}

const (
	// streamRecords bounds the records that the clients of all ranks hold in memory: 48 MiB.
	streamRecords = 1 << 21
	streamMin     = 8 << 10 // of a client
	streamChunk   = 1 << 10
	// streamEvery is how often a client's reader looks for room. A ring has room for much longer.
	streamEvery = time.Millisecond
	endless     = 1 << 63
	// freeEvery is how often a client tells the reader what it is done with; a power of two.
	freeEvery = 256
)

// never is a time in nanoseconds after the end of every window.
const never = 1 << 61

// starvedFor is how many nanoseconds a client waits before it asks again for the time of a request
// that has not been read.
const starvedFor = uint64(time.Millisecond)

// NewStream returns the stream of a client of the prepared part at path. number is the client's
// among the clients of all ranks.
func NewStream(path string, cfg *config.Config, number int) (*Stream, error) {
	file, err := replay.Open(path, cfg.ValueSize.Max())
	if err != nil {
		return nil, fmt.Errorf("open the trace to replay: %w", err)
	}
	room := max(streamRecords/pow2.Ceil(cfg.TotalClients()), streamMin)
	room = min(room, pow2.Ceil(int(min(file.Records+1, streamRecords))))
	// Those that are prepared are in it.
	room = max(room, 2*streamChunk, pow2.Ceil(4*cfg.InFlight))
	s := &Stream{file: file, number: uint32(number), clients: uint32(cfg.TotalClients()),
		keys: uint32(cfg.TotalKeys()), again: !cfg.Rate.Offers(),
		ring: make([]replay.Record, room), mask: uint64(room - 1),
		chunk: make([]replay.Record, streamChunk), memory: make([]byte, streamChunk*replay.Room)}
	if s.again && file.Records < uint64(s.clients) {
		return nil, errors.Join(fmt.Errorf("%d requests to replay are too few for %d clients; use "+
			"fewer", file.Records, s.clients), file.Close())
	}
	if err := s.Rewind(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the stream.
func (s *Stream) Close() error {
	s.Stop()
	return s.file.Close()
}

// Rewind returns to the begin of the part, for another window, and reads until the ring is full. It
// returns an error of reading in the last window, too.
func (s *Stream) Rewind() error {
	s.Stop()
	if s.err != nil {
		return s.err
	}
	s.taken, s.timed, s.before, s.Starved = 0, 0, 0, 0
	s.consumed.Store(0)
	if !s.whole {
		s.at = 0
		s.filled.Store(0)
		s.end.Store(endless)
		if err := s.fill(nil); err != nil {
			return err
		}
		s.whole = s.end.Load() != endless
	}
	if s.known = s.filled.Load(); !s.whole {
		s.readOn()
	}
	return nil
}

// Stop ends reading on. The client takes no more requests until the next Rewind.
func (s *Stream) Stop() {
	if s.stop != nil {
		close(s.stop)
		s.reading.Wait()
		s.stop = nil
	}
}

// readOn reads until the end of the part or until Stop.
func (s *Stream) readOn() {
	stop := make(chan struct{})
	s.stop = stop
	s.reading.Go(func() {
		for s.end.Load() == endless {
			select {
			case <-stop:
				return
			default:
			}
			if s.err = s.fill(stop); s.err != nil {
				return // the client starves, which is reported
			}
			time.Sleep(streamEvery)
		}
	})
}

// fill reads until the ring is full, the part ends or stop is closed. A part that is larger than
// the ring has no end if it begins again.
func (s *Stream) fill(stop <-chan struct{}) error {
	filled := s.filled.Load()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		room := s.consumed.Load() + uint64(len(s.ring)) - filled
		if room < streamChunk {
			return nil
		}
		n, err := s.file.Read(s.chunk, s.memory, s.at)
		if err != nil {
			return err
		}
		if n == 0 && s.again && s.file.Records > uint64(len(s.ring)) {
			s.at = 0
			continue
		} else if n == 0 {
			s.end.Store(filled)
			return nil
		}
		for i := range s.chunk[:n] {
			if r := &s.chunk[i]; s.mine(r, uint64(i)) {
				s.ring[filled&s.mask] = *r
				filled++
			}
		}
		s.at += uint64(n)
		s.filled.Store(filled)
	}
}

// mine reports whether a record of the chunk is the client's. The records of one client of the
// trace stay together. If times do not count, records go to the clients in turn, so that each has
// some.
func (s *Stream) mine(r *replay.Record, index uint64) bool {
	if s.again {
		return (s.at+index)%uint64(s.clients) == uint64(s.number)
	}
	return r.Client%s.clients == s.number
}

// Next writes the next request to r. After the last one, an open loop gets the last one again.
func (s *Stream) Next(r *Request) {
	if s.taken == s.known {
		s.look()
	}
	record := &s.ring[(s.taken-1)&s.mask]
	if s.taken < s.known {
		record = &s.ring[s.taken&s.mask]
		s.taken++
	}
	r.Key = uint64(record.Key)
	if record.Key >= s.keys {
		r.Key = uint64(record.Key % s.keys)
	}
	r.Op = Op(record.Op)
	r.Size = int(record.Size) & -r.Op.writes()
	if s.again && s.taken%freeEvery == 0 {
		s.consumed.Store(s.taken)
	}
}

// look looks for more requests.
func (s *Stream) look() {
	s.known = s.filled.Load()
	switch {
	case s.taken < s.known:
	case s.known != s.end.Load():
		s.Starved++
	case s.again:
		s.taken = 0
	}
}

// After returns the nanoseconds from the request that the last After has passed to the next one; at
// first, from the begin of the part to the first request. After the last request it returns more
// than any window has. A client that starves calls once a millisecond, until it is due again.
func (s *Stream) After() uint64 {
	if s.timed == s.known {
		if s.known = s.filled.Load(); s.timed == s.known {
			if s.known == s.end.Load() {
				return never
			}
			s.Starved++
			s.before += starvedFor
			return starvedFor
		}
	}
	at := max(s.ring[s.timed&s.mask].At, s.before)
	gap := at - s.before
	s.before = at
	if s.timed++; s.timed%freeEvery == 0 {
		s.consumed.Store(min(s.timed, s.taken))
	}
	return gap
}

// StoredSizes returns the initial sizes of the values of a store, by key, for the replay of a part
// of a trace.
func StoredSizes(path string, cfg *config.Config) (func(key uint64) int, error) {
	file, err := replay.Open(path, cfg.ValueSize.Max())
	if err != nil {
		return nil, fmt.Errorf("open the trace to replay: %w", err)
	}
	defer file.Close()
	sizes, err := file.Sizes()
	if err != nil {
		return nil, err
	}
	return func(key uint64) int {
		if key < uint64(len(sizes)) {
			return int(sizes[key])
		}
		return 0
	}, nil
}
