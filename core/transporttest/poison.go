package transporttest

import "transportbench/core/transport"

// poison is what a payload reads as after its time.
const poison = 0xdb

// Poison returns w with every polled payload replaced by a copy that is
// overwritten with 0xDB at the next Poll, so that a user that holds a payload
// too long reads rubbish. The result has those of [transport.Waiter],
// [transport.Prober] and [transport.StatsReader] that w has. A Poll allocates
// until the largest amount of payload has been seen twice.
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

// poisoner hands out payloads from two arenas in turn, so that what was handed
// out stays poisoned for one more Poll before its memory is used again.
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
