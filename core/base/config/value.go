package config

import (
	"time"

	"transportbench/core/transport"
)

// Duration is written as Go writes durations, "1.5s", in flags, files and JSON.
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

// Size is a number of bytes, written "32", "4KiB" or "1MiB" in flags and
// files and as a plain number in JSON, where it is compared and plotted.
type Size int64

func (s Size) String() string { return transport.FormatSize(int64(s)) }

// Set implements the flag's parsing; the units are those of
// [transport.ParseSize].
func (s *Size) Set(text string) error {
	n, err := transport.ParseSize(text)
	*s = Size(n)
	return err
}
