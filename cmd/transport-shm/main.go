package main

import (
	"transportbench/core/fabric/shm/shmperf"
	"transportbench/core/plugin"
	"transportbench/plugins/shm"
)

func main() {
	if shmperf.Child() {
		return
	}
	plugin.Main(shm.Driver{})
}
