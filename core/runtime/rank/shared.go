package rank

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// shared is the memory that the ranks of one host share, whatever the transport: each serving rank
// has a segment, and all ranks that call it map it. It carries the probes of the machine's state
// and of memory, and what a client and a daemon tell each other about a traced call. Nothing in it
// is trusted: a rank that writes anything else there spoils measurements, not the process.
//
// A segment has an identity, then memory of each daemon, then two cache lines for each pair of a
// caller and a daemon, then the messages of a probe in each direction. One pair at a time is
// probed, so the messages are shared by all.
type shared struct {
	cfg      config.Config
	layout   sharedLayout
	segments []*shm.Segment // by serving rank; nil if missing
	missing  []string       // by serving rank: why there is no segment
}

const (
	sharedIdentity = 16
	// The parts of a segment begin at a multiple of two cache lines, because processors fetch lines
	// in pairs.
	sharedHeader = 128
	daemonMemory = loop.CallTraceMemory
	pairMemory   = 256
	pairControl  = 128 // offset of the second line
	sharedPage   = 4096
	// probeMemory has the messages of a probe in one direction, unless a single one is larger. It
	// is more than a core's own caches hold and less than a cache that near cores share. Pages that
	// no probe touches take no memory.
	probeMemory = 4 << 20
)

// sharedLayout has the offsets of the parts of a segment.
type sharedLayout struct {
	daemons, pairs, forth, back, size int
	messages                          int // bytes in each direction
}

func newSharedLayout(cfg config.Config) sharedLayout {
	pageAlign := func(n int) int { return (n + sharedPage - 1) &^ (sharedPage - 1) }
	callers := cfg.TotalClients()
	if cfg.Proxied() {
		callers = cfg.Ranks // the daemons with the same index
	}
	message := pageAlign(cfg.LargestMessage() + transport.ProbeHeader + floor.LineSize)
	var l sharedLayout
	l.daemons = sharedHeader
	l.pairs = l.daemons + cfg.Daemons*daemonMemory
	l.forth = pageAlign(l.pairs + callers*cfg.Daemons*pairMemory)
	l.messages = max(message, probeMemory)
	l.back = l.forth + l.messages
	l.size = l.back + l.messages
	return l
}

// sharedAddress is how another rank finds a segment. Identity tells the segment from one that has
// the same numbers in another namespace of processes.
type sharedAddress struct {
	BootID   string               `json:"boot_id"`
	Ref      shm.Ref              `json:"ref"`
	Identity [sharedIdentity]byte `json:"identity"`
}

// newShared makes the segment of a rank that serves, and returns its address, or nil if there is
// none.
func newShared(cfg config.Config, rank int) (*shared, []byte) {
	n := cfg.ServingRanks()
	s := &shared{cfg: cfg, layout: newSharedLayout(cfg), segments: make([]*shm.Segment, n),
		missing: make([]string, n)}
	for r := range n {
		s.missing[r] = fmt.Sprintf("rank %d has not connected", r)
	}
	if !cfg.Serves(rank) {
		return s, nil
	}
	segment, err := shm.Create("transportbench-probes", s.layout.size, shm.Memfd)
	if err != nil {
		s.missing[rank] = err.Error()
		return s, nil
	}
	a := sharedAddress{BootID: shm.BootID(), Ref: segment.Ref()}
	_, _ = rand.Read(a.Identity[:]) // never fails
	copy(segment.Bytes(), a.Identity[:])
	s.segments[rank] = segment
	address, _ := json.Marshal(a) // cannot fail
	return s, address
}

// connect maps the segments of the serving ranks on this host. A segment that cannot be mapped is
// missing; that is no error.
func (s *shared) connect(workers []record.RankWorkers) {
	for _, w := range workers {
		if w.Rank < 0 || w.Rank >= len(s.segments) || s.segments[w.Rank] != nil {
			continue
		}
		segment, err := s.open(w.Shared)
		if err != nil {
			s.missing[w.Rank] = fmt.Sprintf("rank %d: %v", w.Rank, err)
			continue
		}
		s.segments[w.Rank] = segment
	}
}

func (s *shared) open(address []byte) (*shm.Segment, error) {
	if len(address) == 0 {
		return nil, errors.New("it shares no memory")
	}
	var a sharedAddress
	if err := json.Unmarshal(address, &a); err != nil {
		return nil, fmt.Errorf("the address of its shared memory: %w", err)
	}
	if own := shm.BootID(); a.BootID != own || own == "" {
		return nil, errors.New("it is on another host")
	}
	if a.Ref.Size != s.layout.size {
		return nil, fmt.Errorf("its shared memory has %d bytes and not %d", a.Ref.Size,
			s.layout.size)
	}
	segment, err := shm.Open(a.Ref)
	if err != nil {
		return nil, err
	}
	if [sharedIdentity]byte(segment.Bytes()) != a.Identity {
		return nil, errors.Join(errors.New("its shared memory is in another namespace"),
			segment.Close())
	}
	return segment, nil
}

// daemon returns the memory of a daemon: daemonMemory bytes, zero at first and aligned to two cache
// lines. It returns nil and the reason if this rank does not have it.
func (s *shared) daemon(id record.Thread) (memory []byte, missing string) {
	b, missing := s.segment(id.Rank)
	if b == nil {
		return nil, missing
	}
	at := s.layout.daemons + id.Daemon*daemonMemory
	return b[at : at+daemonMemory : at+daemonMemory], ""
}

// segment returns the memory of a serving rank, or the reason why this rank does not have it.
func (s *shared) segment(rank int) (memory []byte, missing string) {
	if rank < 0 || rank >= len(s.segments) {
		return nil, fmt.Sprintf("rank %d does not serve", rank)
	}
	if s.segments[rank] == nil {
		return nil, s.missing[rank]
	}
	return s.segments[rank].Bytes(), ""
}

// pair returns where a caller and a daemon probe.
func (s *shared) pair(caller, server record.Thread) (word *atomic.Uint64, lines *floor.Lines,
	missing string) {
	b, missing := s.segment(server.Rank)
	if b == nil {
		return nil, nil, missing
	}
	index, callers := caller.Rank, s.cfg.Ranks
	if !s.cfg.Proxied() {
		index, callers = s.cfg.CallerNumber(caller.Rank)*s.cfg.Clients+caller.Client,
			s.cfg.TotalClients()
	}
	if index < 0 || index >= callers || server.Daemon < 0 || server.Daemon >= s.cfg.Daemons {
		return nil, nil, fmt.Sprintf("%v does not call %v", caller, server)
	}
	at := s.layout.pairs + (index*s.cfg.Daemons+server.Daemon)*pairMemory
	return shm.Word64(b, at), &floor.Lines{
		Control: shm.Word64(b, at+pairControl),
		Forth:   b[s.layout.forth:s.layout.back:s.layout.back],
		Back:    b[s.layout.back:],
	}, ""
}

// close unmaps the segments; no thread may use them any more.
func (s *shared) close() error {
	var errs []error
	for _, segment := range s.segments {
		if segment != nil {
			errs = append(errs, segment.Close())
		}
	}
	return errors.Join(errs...)
}

// shareTraces connects a thread with the traces of the daemons on its host.
func (r *Rank) shareTraces(t *thread) {
	// The stages have no wait for the storage, and no second daemon.
	if cfg := &r.plan.Config; cfg.Proxied() || cfg.Stored() || cfg.Delegate {
		return
	}
	if t.daemon != nil {
		if memory, missing := r.shared.daemon(t.id); missing == "" {
			t.daemon.ShareTrace(loop.NewCallTrace(memory))
		}
		return
	}
	c, w := t.client, r.wiring()
	if machine.Calibrated().Fallback() != "" {
		c.NoTraces("the ticks of the processes' clocks are not comparable: " +
			machine.Calibrated().Fallback())
		return
	}
	for rank := range w.Config.ServingRanks() {
		for i := range w.Config.Daemons {
			if memory, missing := r.shared.daemon(
				record.Thread{Rank: rank, Daemon: i, Client: -1}); missing == "" {
				c.ShareTrace(w.DaemonPeer(rank, i), loop.NewCallTrace(memory))
			} else {
				c.NoTraces(missing)
			}
		}
	}
}
