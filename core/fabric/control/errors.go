package control

import (
	"errors"
	"fmt"

	"transportbench/core/transport"
)

// Name is the name of a transport, which its errors begin with.
type Name string

// Error wraps err for an operation that concerns no single peer. It returns nil
// if err is nil.
func (n Name) Error(op string, err error) error {
	if err == nil {
		return nil
	}
	return transport.NewOpError(string(n), op, err)
}

// PeerError wraps err for an operation on a peer. It returns nil if err is nil.
func (n Name) PeerError(op string, peer transport.PeerID, err error) error {
	if err == nil {
		return nil
	}
	return &transport.OpError{Transport: string(n), Op: op, Peer: peer, Err: err}
}

// CheckLimits returns an error if a transport cannot open with a configuration because of its
// limits. A limit of 0 is none.
func CheckLimits(cfg transport.Config, limits transport.Limits) error {
	exceeds := func(n, maximum int) bool { return maximum > 0 && n > maximum }
	switch {
	case exceeds(cfg.MaxPayload, limits.MaxPayload):
		return fmt.Errorf("%w: payloads of %d bytes, and the limit is %d", transport.ErrTooLarge,
			cfg.MaxPayload, limits.MaxPayload)
	case exceeds(cfg.Peers, limits.Peers):
		return fmt.Errorf("%w: %d peers of one worker, and the limit is %d",
			transport.ErrUnsupported, cfg.Peers, limits.Peers)
	case exceeds(cfg.InFlight, limits.InFlight):
		return fmt.Errorf("%w: %d calls in flight on one connection, and the limit is %d",
			transport.ErrUnsupported, cfg.InFlight, limits.InFlight)
	}
	return nil
}

// PeerErrors are the errors that Post and Poll return for one peer. They are made
// when the peer connects because the data path must not allocate.
type PeerErrors struct {
	Down, TooLarge, Unsupported, Corrupt error
	NoCall                               error // a reply to a request that is not open
}

// PeerErrors returns the errors of a peer.
func (n Name) PeerErrors(peer transport.PeerID) PeerErrors {
	return PeerErrors{
		Down:        n.PeerError("post", peer, transport.ErrPeerDown),
		TooLarge:    n.PeerError("post", peer, transport.ErrTooLarge),
		Unsupported: n.PeerError("post", peer, transport.ErrUnsupported),
		NoCall: n.PeerError("post", peer,
			fmt.Errorf("reply: %w: no request is open under this token", transport.ErrUnsupported)),
		Corrupt: n.PeerError("poll", peer, transport.ErrCorrupt),
	}
}

// Probe runs measure, the transport's part of Prober.Probe, and wraps its error. A
// worker that is closed and a peer that is not up are refused before.
func (n Name) Probe(peer transport.PeerID, closed, up bool,
	measure func() (transport.Floor, error)) (transport.Floor, error) {
	switch {
	case closed:
		return transport.Floor{}, n.PeerError("probe", peer, transport.ErrClosed)
	case !up:
		return transport.Floor{}, n.PeerError("probe", peer, transport.ErrPeerDown)
	}
	floor, err := measure()
	switch {
	case errors.Is(err, transport.ErrUnsupported):
		return transport.Floor{}, n.PeerError("probe", peer, err)
	case err != nil:
		return transport.Floor{}, n.PeerError("probe", peer,
			fmt.Errorf("the peer does not take part: %w", err))
	}
	return floor, nil
}
