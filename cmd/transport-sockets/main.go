package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/sockets"
)

func main() { plugin.Main(sockets.Driver{}) }
