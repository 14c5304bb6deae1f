package loop

import (
	"errors"
	"fmt"

	"transportbench/core/transport"
)

// ExplainLoss adds to an error about a lost peer why it was lost, if the worker knows.
func ExplainLoss(w transport.Worker, err error) error {
	var op *transport.OpError
	if !errors.Is(err, transport.ErrPeerDown) || !errors.As(err, &op) ||
		op.Peer == transport.NoPeer {
		return err
	}
	return Explain(w, op.Peer, err)
}

// Explain adds to an error why nothing comes from a peer, if the worker knows.
func Explain(w transport.Worker, peer transport.PeerID, err error) error {
	if reader, ok := w.(transport.PathReader); ok {
		if reason := reader.Silence(peer); reason != nil {
			return fmt.Errorf("%w: %w", err, reason)
		}
	}
	return err
}
