package main

import (
	"os"

	"transportbench/cmd/transportbench/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
