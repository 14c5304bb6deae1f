package main

import (
	"transportbench/core/fabric/shm/shmperf"
	"transportbench/core/plugin"
	"transportbench/plugins/calibration"
	"transportbench/plugins/copyrpc"
	"transportbench/plugins/erpc"
	"transportbench/plugins/grpc"
	"transportbench/plugins/shm"
	"transportbench/plugins/sockets"
	"transportbench/plugins/tcpx"
)

func main() {
	if shmperf.Child() {
		return
	}
	plugin.Main(calibration.Driver{}, copyrpc.Driver{}, erpc.Driver{}, grpc.Driver{}, shm.Driver{},
		sockets.Driver{}, tcpx.Driver{})
}
