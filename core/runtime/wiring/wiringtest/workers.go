package wiringtest

import "transportbench/core/transport"

// Watched shows a worker's events and the ops that it took to functions; nil sees nothing.
type Watched struct {
	transport.Worker
	Polled func(*transport.Event)
	Posted func(*transport.Op)
}

// Poll implements [transport.Worker].
func (w Watched) Poll(events []transport.Event) (int, error) {
	n, err := w.Worker.Poll(events)
	for i := range events[:n] {
		if w.Polled != nil {
			w.Polled(&events[i])
		}
	}
	return n, err
}

// Post implements [transport.Worker].
func (w Watched) Post(ops []transport.Op) (int, error) {
	n, err := w.Worker.Post(ops)
	for i := range ops[:n] {
		if w.Posted != nil {
			w.Posted(&ops[i])
		}
	}
	return n, err
}

// Spoil changes the responses that a worker polls.
func Spoil(w transport.Worker, spoil func(*transport.Event)) transport.Worker {
	return Watched{Worker: w, Polled: func(e *transport.Event) {
		if e.Kind == transport.EventResponse {
			e.Payload = append([]byte(nil), e.Payload...)
			spoil(e)
		}
	}}
}

// Stingy takes one op at a time, and none every other time.
type Stingy struct {
	transport.Worker
	refuses bool
}

// Post implements [transport.Worker].
func (w *Stingy) Post(ops []transport.Op) (int, error) {
	if w.refuses = !w.refuses; w.refuses || len(ops) == 0 {
		return 0, nil
	}
	return w.Worker.Post(ops[:1])
}

// OneByOne returns one event of a poll.
type OneByOne struct{ transport.Worker }

// Poll implements [transport.Worker].
func (w OneByOne) Poll(events []transport.Event) (int, error) { return w.Worker.Poll(events[:1]) }
