package inbox

import (
	"fmt"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/pow2"
	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

const (
	// MaxPayload is the largest Config.MaxPayload, in bytes.
	MaxPayload = 256 << 20
	// MaxPeers is the largest number of connections of one worker.
	MaxPeers = 1024
	// MaxSlots is the largest number of messages in one ring.
	MaxSlots = 1 << 20
)

// Values of Config.Ring besides the algorithms of package ring.
const (
	Inplace = "inplace" // call slots instead of rings
	Auto    = "auto"    // Inplace or Onesided for one call in flight, FastForward for more
)

// Rings returns the values of Config.Ring.
func Rings() []string { return append([]string{Auto, Inplace}, ring.Algorithms()...) }

// Capabilities are what every [Transport] can do, whatever its Config.
var Capabilities = transport.Capabilities{
	Ordered:       true,
	Waits:         true,
	TellsPeerLost: true,
}

// Config is the argument of [Open]. The counts are upper bounds, as in
// [transport.Config].
type Config struct {
	Name    string // of the transport, in errors
	Ring    string // one of Rings
	Slots   int    // messages per ring, or call slots; 0 derives it from InFlight
	Arena   int    // bytes per ring for long payloads; 0 derives it from MaxPayload and InFlight
	Backing shm.Backing
	// HotRings is how many rings a worker keeps polling even if they are idle. The
	// producers of further idle rings must notify the worker.
	HotRings int

	Workers, Peers, InFlight, MaxPayload int
}

// settings is a checked Config.
type settings struct {
	name      control.Name
	auto      bool // the choice of the ring was left to resolve
	inplace   bool
	calls     ring.CallGeometry // if inplace
	algorithm ring.Algorithm    // otherwise
	geometry  ring.Geometry
	backing   shm.Backing
	peers     int
	hotRings  int
}

// Default sizes. An arena has room for four of the largest payload, which a ring needs
// to make progress, and for two windows of calls up to a limit that keeps a run with
// many peers within a laptop's memory.
const (
	minArena  = 256 << 10
	minBuffer = 4 << 10
	maxArena  = 64 << 20
	minSlots  = 64
)

func resolve(cfg Config) (settings, error) {
	if cfg.MaxPayload > MaxPayload {
		return settings{}, fmt.Errorf("%w: payload of %d bytes, the limit is %d",
			transport.ErrTooLarge, cfg.MaxPayload, MaxPayload)
	}
	if cfg.Peers > MaxPeers {
		return settings{}, fmt.Errorf("%w: %d peers per worker, the limit is %d",
			transport.ErrUnsupported, cfg.Peers, MaxPeers)
	}
	s := settings{name: control.Name(cfg.Name), backing: cfg.Backing, peers: max(cfg.Peers, 1),
		hotRings: cfg.HotRings}
	var err error
	name := cfg.Ring
	if s.auto = name == Auto; s.auto {
		// With one call in flight, Inplace moves the lines of one slot back and forth instead of
		// those of two, so a round trip takes less time, above all between far processors. A
		// payload that does not fit into a wide slot moves other lines. With several calls in
		// flight, Onesided finds fewer messages in a poll than FastForward, which is busy for
		// longer, and so waits for lines more often.
		switch {
		case cfg.InFlight > 1:
			name = ring.FastForward.String()
		case cfg.MaxPayload > ring.WideInlineSize:
			name = ring.Onesided.String()
		default:
			name = Inplace
		}
	}
	if name == Inplace {
		err = s.resolveCalls(cfg)
	} else if s.algorithm, err = ring.ParseAlgorithm(name); err == nil {
		err = s.resolveRing(cfg)
	}
	if limit := s.maxPayload(); err == nil && cfg.MaxPayload > limit {
		err = &transport.OptionError{Option: "arena", Problem: fmt.Sprintf(
			"%s holds payloads of up to %d bytes and the run posts %d; use 0 to let it fit",
			transport.FormatSize(int64(cfg.Arena)), limit, cfg.MaxPayload)}
	}
	return s, err
}

// wide reports whether slots have two lines. The line of a payload outside the slot is known only
// once the slot has arrived, and so costs a second wait. The second line of a slot comes with the
// first.
func (c *Config) wide() bool {
	return c.MaxPayload > ring.InlineSize && c.MaxPayload <= ring.WideInlineSize
}

func (s *settings) resolveCalls(cfg Config) error {
	slots := cfg.Slots
	s.inplace = true
	if slots == 0 {
		// Each call names the slot of the next one, which takes one slot more than
		// the calls in flight. A single call always uses the same slot.
		slots = 1
		if cfg.InFlight > 1 {
			slots = min(MaxSlots, cfg.InFlight+1)
		}
	}
	buffer := ring.BufferFor(cfg.MaxPayload)
	if cfg.Arena != 0 {
		buffer = ring.BufferWithin(cfg.Arena, slots)
	}
	s.calls = ring.CallGeometry{Slots: slots, Wide: cfg.wide(), Buffer: max(buffer, minBuffer)}
	if err := s.calls.Check(); err != nil {
		return &transport.OptionError{Option: "slots", Problem: err.Error()}
	}
	return nil
}

func (s *settings) resolveRing(cfg Config) error {
	slots, arena := cfg.Slots, cfg.Arena
	if slots == 0 {
		slots = min(MaxSlots, pow2.Ceil(max(minSlots, 2*cfg.InFlight)))
	}
	if arena == 0 {
		arena = max(minArena, pow2.Ceil(4*cfg.MaxPayload),
			min(maxArena, pow2.Ceil(2*cfg.InFlight*cfg.MaxPayload)))
	}
	s.geometry = ring.Geometry{Slots: slots, Wide: cfg.wide(), Arena: arena}
	if err := s.geometry.Check(); err != nil {
		return &transport.OptionError{Option: "slots or arena", Problem: err.Error()}
	}
	return nil
}

// publishes reports whether messages are visible only after Publish.
func (s *settings) publishes() bool { return !s.inplace && s.algorithm == ring.Lamport }

func (s *settings) maxPayload() int {
	if s.inplace {
		return s.calls.MaxPayload()
	}
	return s.geometry.MaxPayload()
}

func (s *settings) inlineSize() int {
	if s.inplace {
		return s.calls.InlineSize()
	}
	return s.geometry.InlineSize()
}

// bytes returns the memory of one ring or one set of call slots.
func (s *settings) bytes() int {
	if s.inplace {
		return s.calls.Bytes()
	}
	return s.geometry.Bytes()
}

// identity returns the options that both sides of a connection must agree on.
func (s *settings) identity() (kind string, slots, slotSize, arena int) {
	if s.inplace {
		return Inplace, s.calls.Slots, s.calls.SlotSize(), s.calls.Buffer
	}
	g := s.geometry
	return s.algorithm.String(), g.Slots, g.SlotSize(), g.Arena
}
