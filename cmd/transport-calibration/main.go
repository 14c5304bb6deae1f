package main

import (
	"transportbench/core/plugin"
	"transportbench/plugins/calibration"
)

func main() { plugin.Main(calibration.Driver{}) }
