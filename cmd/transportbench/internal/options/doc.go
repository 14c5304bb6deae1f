// Package options resolves flags, environment variables, a configuration file
// and profiles into one configuration. If several of them set an option, the
// first in that order wins. An unknown name or an unreadable value is an error
// that names where it came from.
package options
