package erpc

import (
	"testing"

	"go.uber.org/goleak"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if runServer() {
		return
	}
	goleak.VerifyTestMain(m)
}

// kill ends a rank without a farewell, as the kernel does with the sockets of a process
// that dies.
func kill(t transport.Transport) {
	r := t.(*rank)
	_ = r.heart.close()
	for _, w := range r.workers {
		w.closed = true
		_ = w.port.Close()
	}
}

// TestConformance runs under options that change how bytes move. The timeouts are short
// enough for a clause, and long for a process that is not running all the time.
func TestConformance(t *testing.T) {
	for name, o := range map[string]map[string]string{
		"udp":     {"provider": "udp"},
		"packets": {"provider": "udp", "mtu": "600", "credits": "16", "offload": "off", "checksum": "header"},
		"narrow":  {"provider": "udp", "window": "16", "credits": "16", "batch": "1", "congestion": "none"},
		"slow":    {"provider": "udp", "mtu": "1472", "link-rate": "200000000", "timely-low": "1us", "timely-high": "10us"},
		"lossy": {"provider": "udp", "mtu": "1472", "rto": "1ms", "rto-backoff": "2", "fault-drop": "10000", "fault-duplicate": "10000",
			"fault-reorder": "10000", "fault-corrupt": "10000", "fault-delay": "10000"},
		"soft": {"provider": "soft"},
	} {
		o["keepalive"], o["peer-timeout"] = "50ms", "2s"
		t.Run(name, func(t *testing.T) {
			suite := transporttest.Suite{Driver: Driver{}, Options: o, Kill: kill}
			if o["mtu"] != "" {
				suite.MaxPayload = 8 << 10 // some packets
			}
			if name == "lossy" {
				suite.Skip = map[string]string{"threads/all-to-all": "its threads end when they have answered, and a response that was lost then is missing for good"}
			}
			transporttest.Run(t, suite)
		})
	}
}
