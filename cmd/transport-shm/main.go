package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/shm"
)

func main() { plugin.Main(shm.Driver{}) }
