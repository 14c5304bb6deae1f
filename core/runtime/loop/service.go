package loop

import (
	"transportbench/core/base/config"
)

const (
	// The number of events of one Poll is the number of messages that can arrive, within these
	// bounds.
	MinBatch = 64
	MaxBatch = 1024
)

// Service is config.Service as a number.
type Service uint8

const (
	ServiceStore Service = iota
	ServiceEcho
	ServiceSink
)

func ServiceOf(cfg config.Config) Service {
	switch cfg.Service {
	case config.ServiceEcho:
		return ServiceEcho
	case config.ServiceSink:
		return ServiceSink
	}
	return ServiceStore
}
