package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/copyrpc"
	"transportbench/plugins/erpc"
)

func main() { plugin.Main(copyrpc.Driver{}, erpc.Driver{}) }
