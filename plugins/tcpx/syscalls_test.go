package tcpx

import (
	"testing"

	"transportbench/core/transporttest"
)

func TestSyscalls(t *testing.T) {
	transporttest.CheckSyscalls(t, transporttest.Suite{Driver: Driver{},
		Options: map[string]string{"mode": "host"}},
		"sendto", "recvfrom", "sendmsg", "recvmsg", "ioctl", "epoll_wait", "epoll_pwait")
}
