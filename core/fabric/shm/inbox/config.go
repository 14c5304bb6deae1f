package inbox

import (
	"fmt"
	"math/bits"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

const (
	// MaxPayload is the longest message that a Config may ask for, in bytes.
	MaxPayload = 256 << 20
	// MaxPeers bounds the connections of one worker.
	MaxPeers = 1024
	// MaxSlots bounds the messages of one ring.
	MaxSlots = 1 << 20
)

// What Config.Ring has besides the names of core/fabric/shm/ring.
const (
	Inplace = "inplace" // call slots instead of rings
	Auto    = "auto"
)

// Rings lists the values of Config.Ring.
func Rings() []string { return append([]string{Auto, Inplace}, ring.Algorithms()...) }

// chosenRing is what auto comes to; docs/decisions has the measurements.
func chosenRing(inFlight int) string {
	if inFlight <= 1 {
		return Inplace
	}
	return ring.FastForward.String()
}

// Capabilities are those of every [Transport]; they do not depend on its
// Config.
var Capabilities = transport.Capabilities{
	Ordered:       true,
	Waits:         true,
	TellsPeerLost: true,
}

// Config is what a transport is opened with. The counts are upper bounds, as in
// [transport.Config].
type Config struct {
	Name    string // of the transport, in errors
	Ring    string // one of Rings
	Slots   int    // messages in a ring, or slots; 0 fits the calls in flight
	Arena   int    // bytes for long payloads; 0 fits MaxPayload and the calls in flight
	Backing shm.Backing
	// HotRings is how many rings a worker goes on polling however idle they
	// are; the producers of the others ring its bell.
	HotRings int

	Workers, Peers, InFlight, MaxPayload int
}

// settings is a Config resolved to what the code works with.
type settings struct {
	name      string
	inplace   bool
	calls     ring.CallGeometry // of inplace
	algorithm ring.Algorithm    // of the others
	geometry  ring.Geometry
	backing   shm.Backing
	peers     int
	hotRings  int
}

// Arenas that nobody sized: room for four of the largest payload, which is what
// a ring needs to make progress, and for two windows of calls up to a limit
// that keeps a run with many peers within a laptop's memory.
const (
	leastArena  = 256 << 10
	leastBuffer = 4 << 10
	mostArena   = 64 << 20
	leastSlots  = 64
)

func resolve(cfg Config) (settings, error) {
	if cfg.MaxPayload > MaxPayload {
		return settings{}, fmt.Errorf("%w: %d bytes, and the limit is %d", transport.ErrTooLarge, cfg.MaxPayload, MaxPayload)
	}
	if cfg.Peers > MaxPeers {
		return settings{}, fmt.Errorf("%w: %d peers of one worker, and the limit is %d", transport.ErrUnsupported, cfg.Peers, MaxPeers)
	}
	s := settings{name: cfg.Name, backing: cfg.Backing, peers: max(cfg.Peers, 1), hotRings: cfg.HotRings}
	var err error
	name := cfg.Ring
	if name == Auto {
		name = chosenRing(cfg.InFlight)
	}
	if name == Inplace {
		err = s.resolveCalls(cfg)
	} else if s.algorithm, err = ring.ParseAlgorithm(name); err == nil {
		err = s.resolveRing(cfg)
	}
	if limit := s.maxPayload(); err == nil && cfg.MaxPayload > limit {
		err = &transport.OptionError{Option: "arena", Problem: fmt.Sprintf(
			"%s holds payloads up to %d bytes and the run posts %d; leave it at 0 to fit",
			transport.FormatSize(int64(cfg.Arena)), limit, cfg.MaxPayload)}
	}
	return s, err
}

func (s *settings) resolveCalls(cfg Config) error {
	slots := cfg.Slots
	s.inplace = true
	if slots == 0 {
		// One more than the calls in flight, for a call to name the next one's
		// slot; but a single call's line goes back and forth by itself.
		slots = 1
		if cfg.InFlight > 1 {
			slots = min(MaxSlots, cfg.InFlight+1)
		}
	}
	const perSlot, unit = 4, 64
	buffer := (cfg.MaxPayload + unit - 1) &^ (unit - 1)
	if cfg.Arena != 0 {
		buffer = cfg.Arena / (perSlot * slots) &^ (unit - 1)
	}
	s.calls = ring.CallGeometry{Slots: slots, Buffer: max(buffer, leastBuffer)}
	if err := s.calls.Check(); err != nil {
		return &transport.OptionError{Option: "slots", Problem: err.Error()}
	}
	return nil
}

func (s *settings) resolveRing(cfg Config) error {
	slots, arena := cfg.Slots, cfg.Arena
	if slots == 0 {
		slots = min(MaxSlots, powerOfTwo(max(leastSlots, 2*cfg.InFlight)))
	}
	if arena == 0 {
		arena = max(leastArena, powerOfTwo(4*cfg.MaxPayload),
			min(mostArena, powerOfTwo(2*cfg.InFlight*cfg.MaxPayload)))
	}
	s.geometry = ring.Geometry{Slots: slots, Arena: arena}
	if err := s.geometry.Check(); err != nil {
		return &transport.OptionError{Option: "slots or arena", Problem: err.Error()}
	}
	return nil
}

func (s *settings) maxPayload() int {
	if s.inplace {
		return s.calls.MaxPayload()
	}
	return s.geometry.MaxPayload()
}

func (s *settings) inlineSize() int {
	if s.inplace {
		return ring.CallInlineSize
	}
	return ring.InlineSize
}

// bytes is the memory of one peer's ring or slots.
func (s *settings) bytes() int {
	if s.inplace {
		return s.calls.Bytes()
	}
	return s.geometry.Bytes()
}

// identity is what both sides of a connection must agree on.
func (s *settings) identity() (kind string, slots, arena int) {
	if s.inplace {
		return Inplace, s.calls.Slots, s.calls.Buffer
	}
	return s.algorithm.String(), s.geometry.Slots, s.geometry.Arena
}

// powerOfTwo rounds up.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
