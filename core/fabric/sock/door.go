package sock

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
)

// strangersHeld is how many connections of strangers a door holds until they say what they are for.
const strangersHeld = 64

// Door is a listening socket and the connections to it that have no owner yet. A connection begins
// with a hello of fixed length, by which the door's owner recognises it.
type Door struct {
	Listener  int    // -1 if there is none
	Strangers uint64 // connections that were closed because they sent no proper hello in time

	options *Options
	hello   int
	most    int
	waiting []*Arrival

	answered int64 // when Answer ran last
	listener unix.PollFd
}

// Arrival is a connection without an owner.
type Arrival struct {
	FD    int
	From  unix.Sockaddr
	Hello []byte // what has come of it

	since int64
}

// Verdict is what becomes of an arrival with a whole hello.
type Verdict int

// The verdicts.
const (
	Wait     Verdict = iota // its owner is not known yet; the door closes it if the other side does
	Taken                   // it has an owner now
	Close                   // it is not needed
	Stranger                // its hello is wrong
)

// NewDoor returns the door of a listening socket. hello is the length of a hello, and honest the most
// connections that honest peers may have waiting.
func NewDoor(listener int, o *Options, hello, honest int) Door {
	return Door{Listener: listener, options: o, hello: hello, most: honest + strangersHeld}
}

// Waiting returns the number of connections without an owner.
func (d *Door) Waiting() int { return len(d.waiting) }

// answerEvery is the time between two looks at connections without an owner, in nanoseconds:
// strangers may leave many open, and each look is a system call for each.
const answerEvery = int64(10 * time.Millisecond)

// Knocked reports whether Answer has something to do, which costs a system call. It does not allocate.
func (d *Door) Knocked() bool {
	d.listener = unix.PollFd{Fd: int32(d.Listener), Events: unix.POLLIN}
	return readable(&d.listener) || len(d.waiting) > 0 && clock.Now()-d.answered > answerEvery
}

// Interests appends what poll(2) has to watch for Answer: the listener, and the connections with an
// incomplete hello.
func (d *Door) Interests(list []unix.PollFd) []unix.PollFd {
	list = append(list, unix.PollFd{Fd: int32(d.Listener), Events: unix.POLLIN})
	for _, a := range d.waiting {
		if len(a.Hello) < d.hello {
			list = append(list, unix.PollFd{Fd: int32(a.FD), Events: unix.POLLIN})
		}
	}
	return list
}

// Answer accepts the connections that have come, reads their hellos, and calls decide for those that are
// complete. Of connections without a whole hello it keeps the latest: an honest peer sends its hello at
// once.
func (d *Door) Answer(decide func(*Arrival) Verdict) {
	d.answered = clock.Now()
	for range d.most {
		fd, from, err := d.options.AcceptFrom(d.Listener)
		if err != nil || fd < 0 {
			break
		}
		d.waiting = append(d.waiting, &Arrival{FD: fd, From: from, Hello: make([]byte, 0, d.hello), since: clock.Now()})
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(a *Arrival) bool { return d.settle(a, decide) })
	surplus := len(d.waiting) - d.most
	d.waiting = slices.DeleteFunc(d.waiting, func(a *Arrival) bool {
		drop := surplus > 0 && len(a.Hello) < d.hello
		if drop {
			surplus--
			d.refuse(a)
		}
		return drop
	})
}

// settle reports whether an arrival is no longer waiting.
func (d *Door) settle(a *Arrival, decide func(*Arrival) Verdict) bool {
	if missing := a.Hello[len(a.Hello):d.hello]; len(missing) > 0 {
		n, err := ReceiveBytes(a.FD, missing)
		a.Hello = a.Hello[:len(a.Hello)+n]
		switch {
		case err != nil:
			d.refuse(a)
			return true
		case len(a.Hello) < d.hello:
			late := clock.Now()-a.since > int64(d.options.Timeout)
			if late {
				d.refuse(a)
			}
			return late
		}
	}
	switch decide(a) {
	case Taken:
		return true
	case Stranger:
		d.refuse(a)
		return true
	case Wait:
		if Peek(a.FD) == nil {
			return false
		}
	}
	_ = unix.Close(a.FD)
	return true
}

// refuse closes the connection of a stranger.
func (d *Door) refuse(a *Arrival) {
	d.Strangers++
	_ = unix.Close(a.FD)
}

// Close closes the listener and the connections without an owner.
func (d *Door) Close() (err error) {
	for _, a := range d.waiting {
		_ = unix.Close(a.FD)
	}
	d.waiting = nil
	if d.Listener >= 0 {
		err = unix.Close(d.Listener)
		d.Listener = -1
	}
	return err
}
