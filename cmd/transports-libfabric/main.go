package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/ofi"
)

func main() { plugin.Main(ofi.Driver{}) }
