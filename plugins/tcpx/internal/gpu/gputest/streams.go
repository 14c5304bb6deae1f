package gputest

import "transportbench/plugins/tcpx/internal/cuda"

type stream struct {
	work     []func()
	unmarked bool // there is work after the last event
}

type event struct {
	recorded, ready, asked bool
	stream                 *stream
}

// NewStream makes a stream.
func (d *Device) NewStream() (cuda.Stream, error) {
	err := d.enter("NewStream")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	s := cuda.Stream(d.handle("stream"))
	d.streams[s] = &stream{}
	return s, nil
}

// DestroyStream reports a stream that has work left.
func (d *Device) DestroyStream(s cuda.Stream) error {
	err := d.enter("DestroyStream")
	defer d.mu.Unlock()
	if st := d.streams[s]; st == nil || len(st.work) > 0 && d.broken == nil {
		d.mistake("a stream is given up that does not exist, or has work")
	}
	delete(d.streams, s)
	return err
}

// Synchronize does all work of the stream.
func (d *Device) Synchronize(s cuda.Stream) error {
	err := d.enter("Synchronize")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	st := d.streams[s]
	for _, work := range st.work {
		work()
	}
	st.work = nil
	return d.broken
}

// NewEvent makes an event.
func (d *Device) NewEvent() (cuda.Event, error) {
	err := d.enter("NewEvent")
	defer d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	e := cuda.Event(d.handle("event"))
	d.events[e] = &event{}
	return e, nil
}

// DestroyEvent destroys an event.
func (d *Device) DestroyEvent(e cuda.Event) error {
	err := d.enter("DestroyEvent")
	defer d.mu.Unlock()
	if d.events[e] == nil {
		d.mistake("an event is given up that does not exist")
	}
	delete(d.events, e)
	return err
}

// Record reports an event that covers no work, and one that is recorded again before a query
// found it ready.
func (d *Device) Record(e cuda.Event, s cuda.Stream) error {
	err := d.enter("Record")
	defer d.mu.Unlock()
	if err != nil {
		return err
	}
	d.calls = append(d.calls, "record")
	st, ev := d.streams[s], d.events[e]
	if !st.unmarked {
		d.mistake("an event is recorded behind no work")
	}
	if ev.recorded && !ev.asked {
		d.mistake("an event is recorded again before it was seen ready")
	}
	*ev = event{recorded: true, stream: st}
	st.unmarked = false
	st.work = append(st.work, func() { ev.ready = true })
	return nil
}

// Query returns whether the event is ready, and then does one piece of the stream's work.
func (d *Device) Query(e cuda.Event) (bool, error) {
	err := d.enter("Query")
	defer d.mu.Unlock()
	if err != nil {
		return false, err
	}
	ev := d.events[e]
	if !ev.recorded {
		d.mistake("an event is asked that was never recorded")
	}
	if ev.ready {
		ev.asked = true
		d.calls = append(d.calls, "ready")
		return true, nil
	}
	if len(d.calls) == 0 || d.calls[len(d.calls)-1] != "not ready" {
		d.calls = append(d.calls, "not ready")
	}
	if st := ev.stream; !d.held && len(st.work) > 0 {
		st.work[0]()
		st.work = st.work[1:]
	}
	return false, d.broken
}

func (d *Device) queue(s cuda.Stream, call string, work func()) {
	if len(d.calls) == 0 || call != "copy" || d.calls[len(d.calls)-1] != call {
		d.calls = append(d.calls, call)
	}
	st := d.streams[s]
	st.work, st.unmarked = append(st.work, work), true
}
