package copyrpc

import "testing"

func soft(more ...string) map[string]string {
	o := map[string]string{"provider": "soft"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

func TestSoftClientServer(t *testing.T) { clientServer(t, 2, 5000, soft()) }

func TestSoftMesh(t *testing.T) {
	mesh(t, 3, 3000, soft())
	mesh(t, 8, 200, soft())
}

// TestSoftMeshTiny runs with the smallest queues.
func TestSoftMeshTiny(t *testing.T) {
	for _, credit := range []string{creditPiggyback, creditImmediate, creditRead} {
		mesh(t, 3, 1000, soft("batches", "4", "send-depth", "8", "signal-interval", "4", "inline",
			"0", "credit", credit))
	}
}

func TestSoftMeshReads(t *testing.T) { mesh(t, 3, 1000, soft("credit", "read")) }

func TestSoftMeshNotices(t *testing.T) { mesh(t, 3, 1000, soft("credit", "immediate")) }

func TestSoftKilled(t *testing.T) { killed(t, soft()) }

func TestSoftKilledIdle(t *testing.T) { killedIdle(t, soft("keepalive", "20ms")) }
