package config

import (
	"time"

	"transportbench/core/transport"
)

// Duration is formatted as in Go, "1.5s", in flags, files and JSON.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Size is a number of bytes. In flags and files it is written "32", "4KiB" or "1MiB"; in JSON it is
// a plain number, for programs that compare and plot it.
type Size int64

func (s Size) String() string { return transport.FormatSize(int64(s)) }

// Set parses a size with the units of [transport.ParseSize].
func (s *Size) Set(text string) error {
	n, err := transport.ParseSize(text)
	*s = Size(n)
	return err
}
