package main

import (
	"testing"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, transporttest.Suite{
		Driver: driver{},
		Kill: func(t transport.Transport) { // a death, too, closes descriptors and says nothing
			for _, w := range t.(*rank).workers {
				w.Close()
			}
		},
	})
}
