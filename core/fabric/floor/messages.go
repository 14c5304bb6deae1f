package floor

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/fabric/spin"
	"transportbench/core/transport"
)

// MessageMedium carries messages in both directions between the two sides of [Messages], in order
// and without losses. A message carries the payload of the probe and begins with a word. No method
// waits for the other side.
type MessageMedium interface {
	// Post posts n messages that begin with word, or as many of them as there is room for, and
	// returns how many.
	Post(word uint64, n int) (posted int, err error)
	// Take returns how many messages have arrived and the word with which they begin. One call
	// takes only messages with the same word. Take also sends the bytes that Post has left of a
	// message.
	Take() (n int, word uint64, err error)
}

// Messages is one side of the probes of a medium, over one connection. Keep it while the medium may
// deliver messages of an abandoned probe, because only the same Messages ignores them.
type Messages struct {
	// Name names the medium, such as "raw TCP". The floors are called "raw TCP ping-pong" and "raw
	// TCP stream".
	Name   string
	Medium MessageMedium
	// Wait is set if the medium moves a message in parts, as the memory of [PingPong] does.
	Wait *spin.Wait

	pings PingPong
	tag   uint64 // of the words of a rate probe
}

const (
	// messageHold is the number of empty polls after which a follower answers fewer messages than
	// the initiator asked for.
	messageHold = 32
	// messageSlice is the least time for which one way to batch is measured before the next.
	messageSlice = 300 * time.Microsecond
)

// The word of a message of a rate probe consists of rateWord, a tag that distinguishes the probe
// from abandoned ones, and the number of messages to answer together; 0 ends the probe. The words
// of a ping-pong are numbers below rateWord.
const (
	rateWord  = 1 << 62
	groupBits = 32
	groupMask = 1<<groupBits - 1
	tagMask   = rateWord - 1 - groupMask
)

// Probe is one side of a probe for a [transport.Prober]. It spins as in package spin, and returns
// the cause of ctx if ctx ends first. It returns errors of the medium unwrapped, and
// transport.ErrUnsupported for other kinds than ProbeMedium and ProbeRate.
func (m *Messages) Probe(ctx context.Context, probe transport.Probe) (transport.Floor, error) {
	if probe.Kind != transport.ProbeMedium && probe.Kind != transport.ProbeRate {
		return transport.Floor{}, transport.ErrUnsupported
	}
	if m.Wait == nil {
		m.Wait = new(spin.Wait)
	}
	var stopped atomic.Bool
	defer context.AfterFunc(ctx, func() { stopped.Store(true) })()
	var reading transport.Floor
	var err error
	switch {
	case probe.Kind == transport.ProbeMedium:
		one := &oneMessage{Messages: m}
		m.pings.Name, m.pings.Medium, m.pings.Wait = m.Name+" ping-pong", one, m.Wait
		reading, err = m.pings.Run(ctx, probe.Initiate, probe.Duration)
		for ; err == nil && one.unposted && !stopped.Load(); m.Wait.IdleCall() {
			err = one.push() // the follower's last
		}
	case probe.Initiate:
		reading, err = m.lead(&stopped, min(max(probe.InFlight, 1), groupMask), probe.Duration)
	default:
		err = m.follow(&stopped)
	}
	if err == nil && stopped.Load() {
		reading, err = transport.Floor{}, context.Cause(ctx)
	}
	return reading, err
}

// oneMessage is the [Medium] of a ping-pong.
type oneMessage struct {
	*Messages
	word     uint64
	unposted bool
}

func (o *oneMessage) Post(number uint64) error {
	o.word, o.unposted = number, true
	return o.push()
}

func (o *oneMessage) push() error {
	n, err := o.Medium.Post(o.word, 1)
	o.unposted = n == 0
	return err
}

func (o *oneMessage) Take() (number uint64, ok bool, err error) {
	if o.unposted {
		if err := o.push(); err != nil {
			return 0, false, err
		}
	}
	n, number, err := o.Medium.Take()
	return number, n > 0 && number&rateWord == 0, err
}

// lead measures the time per message with inFlight in flight. It tries several batch sizes, because
// the best depends on the cost of a system call relative to a message; the fastest is the floor.
func (m *Messages) lead(stopped *atomic.Bool, inFlight int, d time.Duration) (transport.Floor,
	error) {
	m.tag = rand.Uint64()&tagMask | rateWord
	groups := slices.Compact([]int{inFlight, max(inFlight/2, 1), max(inFlight/4, 1), 1})
	times := make([][]float64, len(groups))
	slice := max(d/time.Duration(4*len(groups)), messageSlice)
	total := 0
	if _, _, err := m.slice(stopped, 1, inFlight, 0); err != nil { // waits for the other side
		return transport.Floor{}, err
	}
	for start, turn := time.Now(), 0; !stopped.Load() &&
		Another(turn, len(groups), time.Since(start), d); turn++ {
		way := turn % len(groups)
		n, elapsed, err := m.slice(stopped, groups[way], inFlight, slice)
		if err != nil {
			return transport.Floor{}, err
		}
		if n > 0 {
			times[way] = append(times[way], float64(elapsed)/float64(n))
		}
		total += n
	}
	_, _, err := m.slice(stopped, 0, 1, 0)
	return transport.Floor{Name: m.Name + " stream", PerOp: MinMedian(times), Samples: total}, err
}

// slice keeps messages in flight for about d, posts them in batches of group, and returns how many
// were answered and in what time. Nothing is in flight when it begins and ends. With group 0 it
// posts the message that ends the probe.
func (m *Messages) slice(stopped *atomic.Bool, group, inFlight int, d time.Duration) (ops int,
	elapsed time.Duration, err error) {
	word := m.tag | uint64(group)
	begun, unposted, got := 0, 0, 0
	var start time.Time
	first := -1 // messages that were answered when the clock began
	for !stopped.Load() {
		if free := inFlight - (begun - got); elapsed == 0 && free > 0 && free >= group {
			begun += free
			unposted += free
		}
		if unposted > 0 {
			n, err := m.Medium.Post(word, unposted)
			if err != nil {
				return 0, 0, err
			}
			unposted -= n
		}
		n, answer, err := m.Medium.Take()
		if err != nil {
			return 0, 0, err
		}
		if n == 0 || answer != word {
			m.Wait.IdleCall()
			continue
		}
		m.Wait.Found()
		got += n
		switch {
		case group == 0:
			return 0, 0, nil
		case elapsed > 0: // drains
		case first < 0:
			if got >= inFlight {
				first, start = got, time.Now()
			}
		default:
			if t := time.Since(start); t >= d {
				ops, elapsed = got-first, max(t, 1)
			}
		}
		if elapsed > 0 && got == begun {
			return ops, elapsed, nil
		}
	}
	return 0, 0, nil
}

// follow answers messages until the last of a probe.
func (m *Messages) follow(stopped *atomic.Bool) error {
	var word uint64 // of the messages that are being answered
	pending, unposted := 0, 0
	for looks := 0; !stopped.Load(); looks++ {
		n, asked, err := m.Medium.Take()
		if err != nil {
			return err
		}
		if n > 0 && asked&rateWord != 0 {
			m.Wait.Found()
			if asked != word { // earlier messages are answered, or belong to an abandoned probe
				if asked&groupMask == 0 && asked&^groupMask != word&^groupMask {
					continue // its end
				}
				word, pending, unposted = asked, 0, 0
			}
			looks = 0
			pending += n
		}
		group := int(word & groupMask)
		if pending > 0 && (pending >= group || looks >= messageHold) {
			unposted += pending
			pending = 0
		}
		if unposted > 0 {
			n, err := m.Medium.Post(word, unposted)
			if err != nil {
				return err
			}
			if unposted -= n; group == 0 && unposted == 0 {
				return nil
			}
		}
		m.Wait.IdleCall()
	}
	return nil
}
