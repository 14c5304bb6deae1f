package grpc

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
		fabrictest.EchoRole: fabrictest.Echo(Driver{}), plainServer: servePlain}) {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	for name, options := range map[string]map[string]string{
		"stream": {},
		"unary":  {"calls": "unary", "stream-workers": "4"},
		"unix":   {"network": "unix", "codec": "protobuf", "write-buffer": "0"},
		"tls":    {"network": "unix", "calls": "unary", "tls": "true", "max-streams": "64"},
	} {
		if fabrictest.Race && (name == "unix" || name == "unary") {
			continue // the others share the same memory between goroutines
		}
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{
				Driver: Driver{}, Options: options, Timeout: time.Minute,
				Kill: func(t transport.Transport) { _ = t.Close() }, // Close sends no farewell
			})
		})
	}
}
