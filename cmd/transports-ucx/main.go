package main

import (
	"fmt"
	"os"

	"transportbench/core/plugin"
	"transportbench/plugins/ucxam"
)

func main() {
	if err := ucxam.PrepareProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plugin.Main(ucxam.Driver{})
}
