package erpc

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole: fabrictest.Echo(Driver{})}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// closeWithoutByes closes a rank, as the kernel closes the sockets of a process that dies.
func closeWithoutByes(t transport.Transport) {
	e := t.(*endpoint)
	_ = e.heartbeat.close()
	_ = e.workers.Close(func(workers []*worker) error {
		for _, w := range workers {
			w.peers.Close()
			_ = w.release()
		}
		return e.ports.close()
	})
}

// TestConformance runs the suite under options that change how bytes move.
func TestConformance(t *testing.T) {
	for name, o := range map[string]map[string]string{
		"udp":  {"provider": "udp"},
		"soft": {"provider": "soft"},
		"small": {"provider": "udp", "mtu": "600", "credits": "16", "batch": "4", "offload": "off",
			"checksum":   "header",
			"congestion": "none"},
		"lossy": {"provider": "udp", "mtu": "1472", "rto": "1ms", "rto-backoff": "2",
			"fault-drop": "1000", "fault-duplicate": "1000",
			"fault-reorder": "1000", "fault-corrupt": "1000", "fault-delay": "1000",
			"link-rate": "200000000", "timely-low": "1us", "timely-high": "100us"},
	} {
		o["keepalive"], o["peer-timeout"] = "50ms", "200ms"
		t.Run(name, func(t *testing.T) {
			suite := transporttest.Suite{Driver: Driver{}, Options: o, Kill: closeWithoutByes,
				Timeout: time.Minute}
			if o["mtu"] != "" {
				suite.MaxPayload = 4 << 10 // several packets
			}
			if name == "lossy" {
				suite.Skip = map[string]string{
					"wait/arrival-during": "its thread exits after its reply, so a lost response " +
						"is never retransmitted",
					"wait/arrival-before": "its sender does not poll while the receiver waits, " +
						"and so retransmits nothing",
				}
			}
			transporttest.Run(t, suite)
		})
	}
}
