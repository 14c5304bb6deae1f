package loop

import "transportbench/core/base/config"

const (
	// MinBatch and MaxBatch bound the number of events of one Poll, which is otherwise the number
	// of messages that can arrive.
	MinBatch = 64
	// MaxBatch is the upper bound.
	MaxBatch = 1024
)

// Service is config.Service as a number.
type Service uint8

// The services of a daemon.
const (
	// ServiceStore is the key-value store.
	ServiceStore Service = iota
	// ServiceEcho returns each request.
	ServiceEcho
	// ServiceSink takes values and keeps none.
	ServiceSink
)

// ServiceOf returns the service of a configuration.
func ServiceOf(cfg config.Config) Service {
	switch cfg.Service {
	case config.ServiceEcho:
		return ServiceEcho
	case config.ServiceSink:
		return ServiceSink
	}
	return ServiceStore
}
