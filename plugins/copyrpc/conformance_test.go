package copyrpc

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if fabrictest.RunChild(map[string]fabrictest.Role{rankRole: serveRank,
		fabrictest.StepsRole: fabrictest.Steps(Driver{})}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// closeQueuePairs closes all queue pairs without a farewell, as the kernel does when a process
// dies.
func closeQueuePairs(t transport.Transport) {
	e := t.(*endpoint)
	for _, w := range e.open {
		for _, p := range w.byCookie {
			_ = p.qp.Close()
		}
		_ = w.manager.qp.Close()
	}
}

func TestConformance(t *testing.T) {
	for _, o := range []map[string]string{
		{},
		{"credit": "read"},
		{"credit": "immediate"},
		{"queue-pairs": "dc"},
		{"inline": "0", "signal-interval": "1", "send-depth": "8"},
	} {
		o["provider"] = "soft"
		o["keepalive"] = "5ms"
		t.Run(o["credit"]+o["inline"]+o["queue-pairs"], func(t *testing.T) {
			if o["queue-pairs"] == pairsDC {
				useDynamic(t)
			}
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Options: o,
				Kill: closeQueuePairs, Timeout: time.Minute})
		})
	}
}
