package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/erpc"
)

func main() { plugin.Main(erpc.Driver{}) }
