package config

import (
	"cmp"
	"fmt"
	"slices"
)

// Service is what a daemon does with a request. The zero value is the store.
type Service string

// The services.
const (
	// ServiceStore reads and writes entries of a key-value store.
	ServiceStore Service = ""
	// ServiceEcho returns the payload of each request.
	ServiceEcho Service = "echo"
	// ServiceSink reads the payload of each request, verifies one in Config.VerifyEvery, and
	// returns a header.
	ServiceSink Service = "sink"
)

const serviceStore = "store"

func services() []string { return []string{serviceStore, string(ServiceEcho), string(ServiceSink)} }

func (s Service) String() string { return cmp.Or(string(s), serviceStore) }

// ReadRatio returns the only read ratio that the service allows; ok is false if it allows any.
// Each operation of an echo reads what it has written, and counts as a read.
func (s Service) ReadRatio() (ratio float64, ok bool) {
	switch s {
	case ServiceEcho:
		return 1, true
	case ServiceSink:
		return 0, true
	}
	return 0, false
}

// Serves reports whether the service has all operations of a pattern.
func (s Service) Serves(p Pattern) bool {
	switch s {
	case ServiceEcho:
		return len(p) == 0
	case ServiceSink:
		return !slices.ContainsFunc(p, func(o OpCount) bool { return o.Op != OpWrite })
	}
	return true
}

// checkService rejects operations that a service other than the store does not have.
func checkService(c *Config) *Error {
	ratio, fixed := c.Service.ReadRatio()
	if !fixed {
		return nil
	}
	const remedy = "leave it out or use --service store"
	switch {
	case len(c.Mix) > 0:
		return &Error{"mix", fmt.Sprintf("service %s has one operation; %s", c.Service, remedy)}
	case !c.Service.Serves(c.Pattern):
		return &Error{"pattern", fmt.Sprintf("%s has operations other than that of service %s; %s",
			c.Pattern, c.Service, remedy)}
	case len(c.Pattern) == 0 && c.ReadRatio != ratio:
		return &Error{"read-ratio",
			fmt.Sprintf("%g does not apply to service %s, where it is %g; %s", c.ReadRatio,
				c.Service, ratio, remedy)}
	}
	return nil
}
