package main

import (
	"testing"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Driver: driver{},
		Kill:   func(t transport.Transport) { t.Close() }, // Close sends no farewell
	})
}
