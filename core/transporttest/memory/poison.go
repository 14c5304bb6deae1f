package memory

import "transportbench/core/transport"

// poison is the value of the bytes of an expired payload.
const poison = 0xdb

// Poison returns a worker that replaces every polled payload by a copy, which it overwrites with
// 0xDB at the next Poll, so that a user that keeps a payload too long reads garbage. The worker
// implements [transport.Waiter], [transport.Prober] and [transport.StatsReader] if w does. Poll
// allocates until the largest amount of payload has been polled twice.
func Poison(w transport.Worker) transport.Worker {
	p := &poisoner{Worker: w}
	waiter, waits := w.(transport.Waiter)
	prober, probes := w.(transport.Prober)
	stats, counts := w.(transport.StatsReader)
	switch {
	case waits && probes && counts:
		return struct {
			*poisoner
			transport.Waiter
			transport.Prober
			transport.StatsReader
		}{p, waiter, prober, stats}
	case waits && probes:
		return struct {
			*poisoner
			transport.Waiter
			transport.Prober
		}{p, waiter, prober}
	case waits && counts:
		return struct {
			*poisoner
			transport.Waiter
			transport.StatsReader
		}{p, waiter, stats}
	case probes && counts:
		return struct {
			*poisoner
			transport.Prober
			transport.StatsReader
		}{p, prober, stats}
	case waits:
		return struct {
			*poisoner
			transport.Waiter
		}{p, waiter}
	case probes:
		return struct {
			*poisoner
			transport.Prober
		}{p, prober}
	case counts:
		return struct {
			*poisoner
			transport.StatsReader
		}{p, stats}
	}
	return p
}

// poisoner alternates between two arenas, so that a payload stays poisoned for one more Poll
// before its memory is reused.
type poisoner struct {
	transport.Worker
	current, previous []byte
}

// Poll implements [transport.Worker].
func (p *poisoner) Poll(events []transport.Event) (int, error) {
	overwrite(p.current)
	n, err := p.Worker.Poll(events)
	total := 0
	for i := range events[:n] {
		total += len(events[i].Payload)
	}
	p.current, p.previous = p.previous, p.current
	if cap(p.current) < total {
		p.current = make([]byte, 0, total)
	}
	p.current = p.current[:0]
	for i := range events[:n] {
		start := len(p.current)
		p.current = append(p.current, events[i].Payload...)
		if events[i].Payload != nil {
			events[i].Payload = p.current[start:len(p.current):len(p.current)]
		}
	}
	return n, err
}

func overwrite(payload []byte) {
	for i := range payload {
		payload[i] = poison
	}
}
