package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/grpc"
)

func main() { plugin.Main(grpc.Driver{}) }
