package erpc

import (
	"testing"

	"transportbench/core/transporttest"
)

func TestSyscalls(t *testing.T) {
	transporttest.CheckSyscalls(t, transporttest.Suite{Driver: Driver{},
		Options: map[string]string{"provider": "udp"}},
		"sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg")
}
