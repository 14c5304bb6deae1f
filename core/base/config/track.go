package config

import (
	"cmp"
	"fmt"
	"maps"

	"transportbench/core/transport"
)

// Track says which integrity checks a run compares the transports with. It is a label that also
// sets options: see [Config.Validate] and [transport.Info.Matched].
type Track string

// The tracks.
const (
	// TrackShipped runs every transport with its own default options, and verifies as the profile
	// says.
	TrackShipped Track = ""
	// TrackMatched gives all transports the same guarantee: the runtime verifies every value end
	// to end, in both directions, and the transports' own checks of payloads are off.
	TrackMatched Track = "matched"
)

const trackShipped = "shipped"

func tracks() []string { return []string{trackShipped, string(TrackMatched)} }

func (t Track) String() string { return cmp.Or(string(t), trackShipped) }

// checkTrack checks that the verification is the track's.
func checkTrack(c *Config) *Error {
	if c.Track == TrackMatched && c.VerifyEvery != 1 {
		return &Error{"verify-every", fmt.Sprintf(
			"%d contradicts --track matched, which verifies every value; leave it out",
			c.VerifyEvery)}
	}
	return nil
}

// OwnOptions returns the transport's own options that a run on the track sets: own, which the user
// set, and on the track matched those that turn off its own checks of payloads. An option of own
// that contradicts the track is a [*transport.OptionError].
func (t Track) OwnOptions(info transport.Info, own map[string]string) (map[string]string, error) {
	if t != TrackMatched {
		return own, nil
	}
	all := map[string]string{}
	maps.Copy(all, info.Matched)
	for option, value := range own {
		if matched, has := info.Matched[option]; has && value != matched {
			return nil, &transport.OptionError{Option: option, Problem: fmt.Sprintf(
				"%q contradicts --track matched, where it is %q so that no payload is checked "+
					"twice; leave it out", value, matched)}
		}
		all[option] = value
	}
	return all, nil
}
