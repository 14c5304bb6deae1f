package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/copyrpc"
)

func main() { plugin.Main(copyrpc.Driver{}) }
