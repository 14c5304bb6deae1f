package loop

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// silentWorker knows why nothing comes from a peer.
type silentWorker struct{ transport.Worker }

func (silentWorker) Silence(transport.PeerID) error { return errSilent }

func (silentWorker) ReadPaths(dst []transport.Path) []transport.Path { return dst }

var errSilent = errors.New("no answer from 10.0.0.2 for 5s")

// TestExplainLoss: an error with its reason keeps all that it wraps and all that wraps it.
func TestExplainLoss(t *testing.T) {
	outer := errors.New("batch 3")
	lost := &transport.OpError{Transport: "erpc", Op: "poll", Peer: 2, Err: transport.ErrPeerDown}
	err := ExplainLoss(silentWorker{}, fmt.Errorf("%w: %w", outer, lost))
	require.EqualError(t, err,
		"batch 3: erpc: poll peer 2: peer is down: no answer from 10.0.0.2 for 5s")
	for _, wrapped := range []error{outer, lost, transport.ErrPeerDown, errSilent} {
		require.ErrorIs(t, err, wrapped)
	}
}
