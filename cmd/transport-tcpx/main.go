package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/tcpx"
)

func main() { plugin.Main(tcpx.Driver{}) }
