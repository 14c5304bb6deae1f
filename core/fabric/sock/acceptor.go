package sock

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
)

// strangersHeld bounds the connections without a hello that an acceptor holds.
const strangersHeld = 64

// Acceptor is a listening socket and the connections to it that have no owner yet. A connection
// begins with a hello of fixed length, by which its owner recognises it.
type Acceptor struct {
	Listener  int        // -1 if there is none
	Strangers uint64     // connections that were closed because they sent no proper hello in time
	Waiting   []*Arrival // connections without an owner; changed by Accept and Close only

	options *Options
	hello   int
	limit   int

	accepted int64 // when Accept ran last
	listener unix.PollFd
}

// Arrival is a connection without an owner.
type Arrival struct {
	FD    int
	From  unix.Sockaddr
	Hello []byte // the bytes that have arrived

	since int64
}

// Addr returns the remote address of a connection over TCP.
func (a *Arrival) Addr() netip.AddrPort { return fromKernel(a.From) }

// Verdict is a decision about an arrival with a whole hello.
type Verdict int

// The verdicts.
const (
	// its owner is not known yet; the acceptor closes the arrival if the other side does
	Wait     Verdict = iota
	Taken            // it has an owner now
	Close            // it is not needed
	Stranger         // its hello is wrong
)

// NewAcceptor returns the acceptor of a listening socket. hello is the length of a hello, and
// expected the most connections that peers, other than strangers, may have waiting.
func NewAcceptor(listener int, o *Options, hello, expected int) Acceptor {
	return Acceptor{Listener: listener, options: o, hello: hello, limit: expected + strangersHeld}
}

// lookEvery is the time in nanoseconds between two checks of the connections without an owner:
// there may be many, and a check takes a system call for each.
const lookEvery = int64(10 * time.Millisecond)

// Ready reports whether Accept has something to do, which costs a system call. It does not
// allocate.
func (l *Acceptor) Ready() bool {
	l.listener = unix.PollFd{Fd: int32(l.Listener), Events: unix.POLLIN}
	return readable(&l.listener) || len(l.Waiting) > 0 && clock.Now()-l.accepted > lookEvery
}

// Interests appends what poll(2) has to watch for Accept: the listener, and the connections with an
// incomplete hello.
func (l *Acceptor) Interests(list []unix.PollFd) []unix.PollFd {
	list = append(list, unix.PollFd{Fd: int32(l.Listener), Events: unix.POLLIN})
	for _, a := range l.Waiting {
		if len(a.Hello) < l.hello {
			list = append(list, unix.PollFd{Fd: int32(a.FD), Events: unix.POLLIN})
		}
	}
	return list
}

// Accept accepts pending connections, reads their hellos, and calls decide for the complete ones.
// It keeps only the newest connections without a whole hello, because a peer sends its hello at
// once. It returns [ErrInDmabuf] if this host could not read a hello.
func (l *Acceptor) Accept(decide func(*Arrival) Verdict) (err error) {
	l.accepted = clock.Now()
	for range l.limit {
		fd, from, err := l.options.AcceptFrom(l.Listener)
		if err != nil || fd < 0 {
			break
		}
		l.Waiting = append(l.Waiting, &Arrival{FD: fd, From: from, Hello: make([]byte, 0, l.hello),
			since: clock.Now()})
	}
	l.Waiting = slices.DeleteFunc(l.Waiting, func(a *Arrival) bool {
		settled, failure := l.settle(a, decide)
		if errors.Is(failure, ErrInDmabuf) {
			err = failure
		}
		return settled
	})
	surplus := len(l.Waiting) - l.limit
	l.Waiting = slices.DeleteFunc(l.Waiting, func(a *Arrival) bool {
		drop := surplus > 0 && len(a.Hello) < l.hello
		if drop {
			surplus--
			l.refuse(a)
		}
		return drop
	})
	return err
}

// settle reports whether an arrival has stopped waiting, and returns the error of reading its
// hello.
func (l *Acceptor) settle(a *Arrival, decide func(*Arrival) Verdict) (settled bool, err error) {
	if missing := a.Hello[len(a.Hello):l.hello]; len(missing) > 0 {
		n, err := ReceiveBytes(a.FD, missing)
		a.Hello = a.Hello[:len(a.Hello)+n]
		switch {
		case err != nil:
			l.refuse(a)
			return true, err
		case len(a.Hello) < l.hello:
			late := clock.Now()-a.since > int64(l.options.Timeout)
			if late {
				l.refuse(a)
			}
			return late, nil
		}
	}
	switch decide(a) {
	case Taken:
		return true, nil
	case Stranger:
		l.refuse(a)
		return true, nil
	case Wait:
		if Peek(a.FD) == nil {
			return false, nil
		}
	}
	_ = unix.Close(a.FD)
	return true, nil
}

// refuse closes the connection of a stranger.
func (l *Acceptor) refuse(a *Arrival) {
	l.Strangers++
	_ = unix.Close(a.FD)
}

// Close closes the listener and the connections without an owner.
func (l *Acceptor) Close() (err error) {
	for _, a := range l.Waiting {
		_ = unix.Close(a.FD)
	}
	l.Waiting = nil
	if l.Listener >= 0 {
		err = unix.Close(l.Listener)
		l.Listener = -1
	}
	return err
}
